// Asks the server. All addresses are relative, so that the page works below any path.

import { type Event, Events } from "./events";
import { secret } from "./secret";
import { snapshot } from "./snapshot";

/** One more place where a text is wrong. */
export interface Place {
  message: string;
  hint?: string;
  position: number;
  length: number;
}

/**
 * Why there is no answer, as a sentence for people. A Diagnostic of the server has a code and the
 * position in the sentence that was asked.
 */
export class Trouble extends Error {
  constructor(
    message: string,
    /** HTTP's; 0 when the server could not be reached. */
    readonly status: number,
    readonly code = "",
    /** Byte of the sentence where it is wrong; -1 when it is not about a place in a sentence. */
    readonly position = -1,
    /** How much of it is wrong, at least 1. */
    readonly length = 1,
    /** What may help; may be "". */
    readonly hint = "",
    /** What else is wrong with the text. */
    readonly also: readonly Place[] = [],
  ) {
    super(message);
  }
}

/** The sentence for whatever was thrown. */
export function say(e: unknown): string {
  if (e instanceof Trouble) return e.hint === "" ? e.message : `${e.message} (${e.hint})`;
  return e instanceof Error ? e.message : String(e);
}

/** Parameters of a request. A list becomes one parameter per element; undefined is left out. */
export type Params = Record<string, string | number | boolean | readonly string[] | undefined>;

/** The address of a door of the API, relative to the page. */
export function address(path: string, params: Params = {}): string {
  const out = new URLSearchParams();
  for (const [name, v] of Object.entries(params)) {
    if (v === undefined) continue;
    if (typeof v === "object") for (const one of v) out.append(name, one);
    else out.append(name, String(v));
  }
  const query = out.toString();
  return `api/${path}${query === "" ? "" : `?${query}`}`;
}

async function reach(input: string, init: RequestInit): Promise<Response> {
  if (snapshot !== null) {
    const kept = typeof snapshot === "string" ? null : snapshot.answer(input);
    if (kept?.ok) return kept;
    if (kept) throw await refusal(kept);
    const why = "This is a snapshot: it has only the time and the queries that were saved";
    throw new Trouble(why, 404, "snapshot");
  }
  let answer: Response;
  try {
    answer = await fetch(input, { credentials: "same-origin", cache: "no-store", ...init });
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Trouble("No connection to culprit", 0, "unreachable");
  }
  if (answer.ok) return answer;
  throw await refusal(answer);
}

/** What a refusal says, in words. */
export async function refusal(answer: Response): Promise<Trouble> {
  if (answer.status === 401) {
    return new Trouble("this browser is not logged in: enter a token", 401, "token");
  }
  const text = await answer.text().catch(() => "");
  try {
    const { error } = JSON.parse(text) as {
      error: {
        message: string;
        code?: string;
        position?: number;
        length?: number;
        hint?: string;
        also?: Place[];
      };
    };
    return new Trouble(
      error.message,
      answer.status,
      error.code ?? "",
      error.position ?? -1,
      Math.max(1, error.length ?? 1),
      error.hint ?? "",
      error.also ?? [],
    );
  } catch {
    return new Trouble(
      text.trim().slice(0, 300) ||
        `culprit refused the request: ${answer.status} ${answer.statusText}`,
      answer.status,
    );
  }
}

/** Asks for JSON. Throws Trouble, or the signal's reason. */
export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const answer = await reach(address(path, params), signal ? { signal } : {});
  return (await answer.json()) as T;
}

/** Asks for bytes, in the form that is wanted. */
export async function bytes(
  path: string,
  params: Params,
  accept: string,
  signal?: AbortSignal,
): Promise<Response> {
  return reach(address(path, params), {
    headers: { Accept: accept },
    ...(signal ? { signal } : {}),
  });
}

/** Asks the person for a token; false: there is none. The page sets it. */
let askForToken: () => Promise<boolean> = async () => false;

/** Sets how the page asks for a token when it lacks the secret of its session. */
export function askBy(f: () => Promise<boolean>): void {
  askForToken = f;
}

/** Whether a request was refused for lack of the secret of the session. */
function isLocked(e: unknown): boolean {
  return e instanceof Trouble && e.code === "locked";
}

/**
 * Sends a request with the secret of the session. A tab that lacks it asks the other tabs, then the
 * person.
 */
async function prove(input: string, init: RequestInit): Promise<Response> {
  const send = () =>
    reach(input, {
      ...init,
      headers: { ...init.headers, "X-Culprit": "1", "X-Culprit-Secret": secret().value },
    });
  if (secret().value === "") await secret().ask();
  const tried = secret().value;
  try {
    return await send();
  } catch (e) {
    if (!isLocked(e)) throw e;
    if (secret().value === tried) secret().forget();
    if ((await secret().ask()) !== "" && secret().value !== tried) {
      try {
        return await send();
      } catch (again) {
        if (!isLocked(again)) throw again;
      }
    }
    if (!(await askForToken())) throw e;
    return send();
  }
}

/** Logs in with a token, and keeps the secret of the new session. */
export async function login(token: string): Promise<void> {
  await takeSecret({ token });
}

/** Ends the session of this browser. */
export async function logout(): Promise<void> {
  await reach(address("logout"), changing({}));
  secret().forget();
}

/**
 * Takes the secret of a login in the address of the page: the server put a code there, which works
 * once. It is taken out of the address at once.
 */
export async function beginSession(): Promise<void> {
  const params = new URLSearchParams(location.search);
  const code = params.get("login");
  secret(); // answers other tabs from now on
  if (code === null) return;
  history.replaceState(history.state, "", location.pathname + location.hash);
  await takeSecret({ code });
}

async function takeSecret(body: { code: string } | { token: string }): Promise<void> {
  const answer = await reach(address("login"), changing(body));
  secret().keep(((await answer.json()) as { secret: string }).secret);
}

/** A request that changes something. Its header shows the server that no foreign page sent it. */
function changing(body: unknown): RequestInit {
  return {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Culprit": "1" },
    body: JSON.stringify(body),
  };
}

/** Asks for JSON that needs the secret of the session. */
export async function getProved<T>(path: string): Promise<T> {
  return (await (await prove(address(path), {})).json()) as T;
}

/** Changes something. */
export async function post<T>(path: string, body: unknown = {}): Promise<T | null> {
  const answer = await prove(address(path), changing(body));
  const text = await answer.text();
  return text.trim() === "" ? null : (JSON.parse(text) as T);
}

/** Asks for what takes a body, and changes nothing: the secret of the session is not needed. */
export async function look<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await reach(address(path), { ...changing(body), ...(signal ? { signal } : {}) });
  return (await answer.json()) as T;
}

/** Sends a file. */
export async function upload<T>(path: string, params: Params, file: Blob): Promise<T> {
  const answer = await prove(address(path, params), {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: file,
  });
  return (await answer.json()) as T;
}

/**
 * What a stream is at: connected, or not, since when (milliseconds, this machine's clock) and why.
 */
export type Link = { up: true } | { up: false; since: number; why: string; trying: boolean };

/** The server sends a comment each 15 seconds; silence beyond this is a dead connection. */
const silence = 40_000;

/** Waits before each try to connect again, in milliseconds; the last one stays. */
const waits = [500, 1000, 2000, 5000, 10_000];

/**
 * Follows a stream of events until the signal, connecting again when it breaks. A page that nobody
 * sees does not follow: it costs the server nothing. A refusal that trying again cannot mend (a
 * wrong sentence, no token) ends the following.
 */
export function follow(
  path: string,
  params: Params,
  signal: AbortSignal,
  on: { event(e: Event): void; link(l: Link): void },
): void {
  void (async () => {
    let tries = 0;
    let since = Date.now();
    let was = false;
    const down = (why: string, trying: boolean): void => {
      if (was) since = Date.now();
      was = false;
      on.link({ up: false, since, why, trying });
    };
    while (!signal.aborted) {
      if (document.hidden) {
        await until(document, "visibilitychange", signal);
        continue;
      }
      const stop = new AbortController();
      const end = () => stop.abort();
      const hide = () => document.hidden && end();
      signal.addEventListener("abort", end, { once: true });
      document.addEventListener("visibilitychange", hide);
      let watchdog = setTimeout(end, silence);
      let why = "the connection was closed";
      try {
        const answer = await reach(address(path, params), {
          headers: { Accept: "text/event-stream" },
          signal: stop.signal,
        });
        was = true;
        tries = 0;
        on.link({ up: true });
        const events = new Events(on.event);
        const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          clearTimeout(watchdog);
          watchdog = setTimeout(end, silence);
          events.push(value);
        }
      } catch (e) {
        if (e instanceof Trouble) {
          why = say(e);
          if (e.status >= 400 && e.status < 500 && e.status !== 429) {
            down(why, false);
            return;
          }
        } else if (stop.signal.aborted) why = "no data for 40 seconds";
        else why = "the connection broke";
      } finally {
        clearTimeout(watchdog);
        signal.removeEventListener("abort", end);
        document.removeEventListener("visibilitychange", hide);
        end();
      }
      if (signal.aborted) return;
      if (document.hidden) continue;
      down(why, true);
      await pause(waits[Math.min(tries++, waits.length - 1)]!, signal);
    }
  })();
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const t = setTimeout(done, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(t);
        done();
      },
      { once: true },
    );
  });
}

function until(target: EventTarget, name: string, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    target.addEventListener(name, () => done(), { once: true });
    signal.addEventListener("abort", () => done(), { once: true });
  });
}
