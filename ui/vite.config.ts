import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { escapeUnseen } from "./vite.unseen.ts";

const dist = join(import.meta.dirname, "dist");

// The page is served precompressed: beside each file of text lie its .gz and .br. Names carry no
// hash, because the server's ETag says what changed; so nothing of an older build may stay behind.
function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    buildStart() {
      for (const name of readdirSync(dist))
        if (name !== "README") rmSync(join(dist, name), { recursive: true });
    },
    closeBundle() {
      for (const entry of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
        const path = join(dist, entry);
        if (!/\.(html|js|css|svg)$/.test(entry) || !statSync(path).isFile()) continue;
        const text = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(text, { level: 9 }));
        writeFileSync(
          `${path}.br`,
          brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: text.length } }),
        );
      }
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [svelte(), escapeUnseen(), precompress()],
  build: {
    outDir: dist,
    emptyOutDir: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // data: URLs are not in the content security policy
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        entryFileNames: "page.js",
        chunkFileNames: "[name].js",
        assetFileNames: "page.[ext]",
      },
    },
  },
  // npm run dev: the page with reload, in front of a server whose token is in CULPRIT_TOKEN.
  server: {
    proxy: {
      "/api": {
        target: "http://127.0.0.1:7410",
        changeOrigin: true,
        headers: {
          Authorization: `Bearer ${process.env.CULPRIT_TOKEN ?? ""}`,
          Origin: "http://127.0.0.1:7410",
        },
      },
    },
  },
  test: { include: ["{data,draw,state,parts}/**/*.test.ts", "*.test.ts"] },
});
