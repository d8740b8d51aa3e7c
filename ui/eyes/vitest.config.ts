import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The longest files begin first: frame waits for many pages, hour for many seconds. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const long = (f: TestSpecification): number => Number(/(frame|hour)\.eyes/.test(f.moduleId));
    return sorted.sort((a, b) => long(b) - long(a));
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
