// Runs the tests of eyes/ (all, or those of the files in the arguments). Files that fail are run
// once more, alone, each with a new server and browser: these tests measure a live machine, which
// others may load. Those that pass then are reported as unsteady, and the run as passed.
import { relative } from "node:path";
import { startVitest } from "vitest/node";

// More failed files than these are no accident: they are not run again.
const mostAgain = 3;

/** Runs test files, all if there are none; returns the paths of the files that failed. */
async function run(files, options) {
  const vitest = await startVitest("test", files, {
    config: "eyes/vitest.config.ts",
    run: true,
    ...options,
  });
  const failed = vitest.state.getFailedFilepaths();
  const broken = vitest.state.getUnhandledErrors().length > 0;
  await vitest.close();
  return { failed, broken };
}

const { failed, broken } = await run(process.argv.slice(2), {});
if (!broken && failed.length > 0 && failed.length <= mostAgain) {
  console.log(`\nfailed, and run again alone: ${failed.map((f) => relative("", f)).join(", ")}\n`);
  process.exitCode = 0;
  const second = await run(failed, { maxWorkers: 1 });
  for (const file of failed)
    if (!second.broken && !second.failed.includes(file))
      console.log(`unsteady ${relative("", file)}: failed, then passed alone`);
}
