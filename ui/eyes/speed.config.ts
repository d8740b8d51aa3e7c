import { join } from "node:path";
import { defineConfig } from "vitest/config";

// How fast the built program is on a screen. No tests: they want nothing of the numbers, and say
// them.
export default defineConfig({
  root: join(import.meta.dirname, ".."),
  test: {
    include: ["eyes/*.speed.ts"],
    testTimeout: 300_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    reporters: ["default"],
    disableConsoleIntercept: true,
  },
});
