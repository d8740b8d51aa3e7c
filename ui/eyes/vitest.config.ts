import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The longest file begins first: frame waits for more pages than the others. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort(
      (a, b) => Number(b.moduleId.includes("frame")) - Number(a.moduleId.includes("frame")),
    );
  }
}

// Looks at the page as a person does: the built program on real load, in a browser. Each file has a
// server and a browser of its own and waits for seconds to pass most of the time: two at a time,
// not more, for they share the machine.
export default defineConfig({
  root: join(import.meta.dirname, ".."),
  test: {
    include: ["eyes/*.eyes.ts"],
    testTimeout: 180_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
  },
});
