import { join } from "node:path";
import { defineConfig } from "vitest/config";

// Makes the pictures of docs/img anew. No tests: people look at the pictures.
export default defineConfig({
  root: join(import.meta.dirname, ".."),
  test: {
    include: ["eyes/*.pictures.ts"],
    testTimeout: 600_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    reporters: ["default"],
  },
});
