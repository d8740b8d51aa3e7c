// What the tests of the page stand on: the built program, recording this machine into a directory
// of its own, and a browser.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";

const top = join(import.meta.dirname, "..", "..");
export const program = process.env.CULPRIT ?? join(top, "bin", "culprit");
const chrome = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Pictures for people to look at. */
const pictures = join(top, ".cache", "eyes");

/** Why the tests can't run here; "" when they can. */
export const lacks = !existsSync(program)
  ? `${program} is not built`
  : !existsSync(chrome)
    ? "needs: tool chromium"
    : "";

const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** An address of this machine that nobody listens at. */
export async function freeAddress(): Promise<string> {
  return new Promise((done, fail) => {
    const s = createServer();
    s.on("error", fail);
    s.listen(0, "127.0.0.1", () => {
      const a = s.address();
      s.close(() => done(`127.0.0.1:${a !== null && typeof a === "object" ? a.port : 0}`));
    });
  });
}

/** Waits until something holds, for at most so long. */
export async function until<T>(
  what: string,
  f: () => Promise<T | undefined | false | null>,
  ms = 30_000,
): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const v = await f();
    if (v !== undefined && v !== false && v !== null) return v;
    if (Date.now() > end) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await new Promise((r) => setTimeout(r, 100));
  }
}

/** A running `culprit serve`. */
export class Served {
  #child: ChildProcess | undefined;
  #output = "";

  private constructor(
    readonly dir: string,
    readonly address: string,
    readonly flags: readonly string[],
  ) {}

  /** Starts `culprit serve` with flags beside those of the tests. */
  static async start(...flags: string[]): Promise<Served> {
    const dir = mkdtempSync(join(tmpdir(), "culprit-eyes-"));
    const s = new Served(dir, await freeAddress(), flags);
    await s.up();
    return s;
  }

  /** Starts the program (again), and waits until it answers and has recorded something. */
  async up(): Promise<void> {
    this.#output = "";
    const child = spawn(
      program,
      ["serve", "--listen", this.address, "--dir", this.dir, "--for", "10m", ...this.flags],
      {
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    this.#child = child;
    child.stdout.on("data", (d) => (this.#output += d));
    child.stderr.on("data", (d) => (this.#output += d));
    await until(
      "culprit serve records",
      async () => {
        if (child.exitCode !== null) throw new Error(`culprit serve ended: ${this.#output}`);
        try {
          const { series } = await this.get<{ series: unknown[] }>(
            "ask?q=cpu.time&from=-3s&to=now&step=1000",
          );
          return series.length > 0;
        } catch {
          return false;
        }
      },
      90_000,
    ); // the first seconds of a busy machine
  }

  /** Ends the program, and waits until it has. */
  async down(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((r) => child.once("exit", r));
    child.kill("SIGTERM");
    await gone;
  }

  /** Ends the program for good. A fault of its own that it went on from is a fault all the same. */
  async end(): Promise<void> {
    const { trouble } = await this.get<{ trouble: string[] | null }>("health");
    const faults = (trouble ?? []).filter((t) => t.includes("a fault of culprit itself"));
    await this.down();
    rmSync(this.dir, { recursive: true, force: true });
    if (faults.length > 0) throw new Error(faults.join("; "));
  }

  get token(): string {
    return readFileSync(join(this.dir, "token"), "utf8").trim();
  }

  /** The program's process. */
  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  get url(): string {
    return `http://${this.address}/`;
  }

  /** Sends a change to the API, as the page does. */
  async post(path: string, body: object): Promise<void> {
    const answer = await fetch(`${this.url}api/${path}`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${this.token}`,
        "Content-Type": "application/json",
        "X-Culprit": "1",
      },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }

  /**
   * Removes what tests have saved. A test that asserts that nothing is saved calls it first: when
   * vitest runs it a second time, what the first run has saved is still there.
   */
  async clear(): Promise<void> {
    const saved = await this.get<{ worksheets: { id: number; version: number }[] }>("worksheets");
    for (const w of saved.worksheets)
      await this.post(`worksheets/${w.id}/remove`, { version: w.version });
    const run = await this.get<{ scripts: { id: number }[] }>("scripts");
    for (const s of run.scripts) await this.post(`scripts/${s.id}/remove`, {});
  }

  /** What the API answers. */
  async get<T>(path: string): Promise<T> {
    const answer = await fetch(`${this.url}api/${path}`, {
      headers: { Authorization: `Bearer ${this.token}` },
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }
}

/** A page that is looked at, and all that went wrong in it. */
export interface Look {
  page: Page;
  context: BrowserContext;
  /** Errors, refused styles and scripts, requests to anybody else, answers that are errors. */
  wrong: string[];
}

export class Eyes {
  private constructor(readonly browser: Browser) {}

  /**
   * Ahead: the browser goes before all else on this machine, as far as that is allowed, so that
   * what is measured is not how long it waits for a processor. Linux shares processors between
   * sessions first, and a nice value is of the session that a process is in.
   */
  static async open(ahead = false): Promise<Eyes> {
    mkdirSync(pictures, { recursive: true });
    if (!ahead) return new Eyes(await chromium.launch({ executablePath: chrome, args: flags }));
    const dir = mkdtempSync(join(tmpdir(), "culprit-ahead-"));
    const first = join(dir, "chromium");
    const line = `#!/bin/sh\necho -18 2>/dev/null >/proc/self/autogroup\nrenice -n -18 -p $$ >/dev/null 2>&1\nexec "${chrome}" "$@"\n`;
    writeFileSync(first, line, { mode: 0o755 });
    try {
      return new Eyes(await chromium.launch({ executablePath: first, args: flags }));
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }

  async close(): Promise<void> {
    await this.browser.close();
  }

  /** Opens a place of the page (#now), let in by the token. */
  async at(
    served: Served,
    fragment: string,
    how: { width?: number; height?: number; theme?: "dark" | "light"; base?: string } = {},
  ): Promise<Look> {
    const context = await this.browser.newContext({
      viewport: { width: how.width ?? 1280, height: how.height ?? 800 },
      colorScheme: how.theme ?? "dark",
    });
    const page = await context.newPage();
    const wrong: string[] = [];
    const base = how.base ?? served.url;
    page.on("console", (m) => {
      if (m.type() === "error" || m.type() === "warning") wrong.push(`console: ${m.text()}`);
    });
    page.on("pageerror", (e) => wrong.push(`error: ${e.stack}`));
    page.on("request", (r) => {
      if (!r.url().startsWith(base)) wrong.push(`asks somebody else: ${r.url()}`);
    });
    page.on("response", (r) => {
      if (r.status() >= 400) wrong.push(`${r.status()} ${r.url()}`);
    });
    // What a test that failed looked at, in a picture and in words.
    onTestFinished(async ({ task }) => {
      if (task.result?.state === "fail") {
        await picture(page, `failed-${task.name.replace(/\W+/g, "-").slice(0, 60)}`);
        const text = await page.locator("body").innerText();
        console.log(`${task.name}: at ${page.url()}\n${wrong.join("\n")}\n${text.slice(0, 3000)}`);
      }
      await context.close();
    });
    await page.goto(`${base}?token=${served.token}${fragment}`);
    await page.waitForSelector("main h1");
    return { page, context, wrong };
  }
}

/** Keeps a picture of what is shown, for people. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Wants what is shown to be usable by everybody, as far as axe can tell. */
export async function accessible(page: Page): Promise<void> {
  // What stays in sight covers what is scrolled below it: that is no fault of a target.
  const before = await page.evaluate(() => {
    const y = scrollY;
    scrollTo(0, 0);
    return y;
  });
  // Beside the page and not in it: the content security policy lets no other script in.
  await page.evaluate(readFileSync(axe, "utf8"));
  const { violations } = (await page.evaluate(
    "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })",
  )) as {
    violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[];
  };
  await page.evaluate((y) => scrollTo(0, y), before);
  const said = violations.map(
    (v) =>
      `${v.id}: ${v.help}\n${v.nodes.map((n) => `   ${n.html.slice(0, 200)}\n   ${n.failureSummary}`).join("\n")}`,
  );
  expect(said.join("\n")).toBe("");
}

/** Wants nothing to stand beyond the right edge. Names the innermost elements that do. */
export async function fits(page: Page): Promise<void> {
  const [wide, has, beyond] = await page.evaluate(() => {
    const out = [...document.body.querySelectorAll("*")].filter(
      (e) => e.getBoundingClientRect().right > innerWidth + 1,
    );
    const inner = out.filter((e) => !out.some((o) => o !== e && e.contains(o)));
    const text = (e: Element) => `<${e.tagName} class="${e.className}"> ${e.textContent ?? ""}`;
    return [
      document.documentElement.scrollWidth,
      innerWidth,
      inner.slice(0, 5).map((e) => text(e).slice(0, 200)),
    ] as const;
  });
  expect(wide, `the page is wider than the window: ${beyond.join("\n")}`).toBeLessThanOrEqual(has);
}

/**
 * Keeps the CPUs busy, with so many processes of this name, until the returned function is
 * called.
 */
export function load(processes: number): () => void {
  const all = Array.from({ length: processes }, () =>
    spawn("sh", ["-c", "while :; do :; done"], { stdio: "ignore" }),
  );
  return () => {
    for (const p of all) p.kill("SIGKILL");
  };
}
