import { join } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { escapeUnseen } from "./vite.unseen.ts";

// The page in one file, which culprit writes with a profile in it: a script and a style that load
// nothing.
export default defineConfig({
  plugins: [svelte(), escapeUnseen()],
  build: {
    outDir: join(import.meta.dirname, "dist", "file"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rolldownOptions: {
      input: join(import.meta.dirname, "file.ts"),
      output: { format: "iife", entryFileNames: "file.js", assetFileNames: "file.[ext]" },
    },
  },
});
