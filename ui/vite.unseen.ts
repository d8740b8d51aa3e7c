import type { Plugin } from "vite";

// Characters that are not seen, or that reverse text: the zero width space and its kin, the marks
// of direction, the separators of lines, the byte order mark. A minifier writes them as they are.
const unseen = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Replaces invisible characters in the built program by escapes, so that a reader sees them. */
export function escapeUnseen(): Plugin {
  return {
    name: "escape-unseen",
    apply: "build",
    generateBundle(_, bundle) {
      for (const part of Object.values(bundle))
        if (part.type === "chunk")
          part.code = part.code.replace(
            unseen,
            (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
          );
    },
  };
}
