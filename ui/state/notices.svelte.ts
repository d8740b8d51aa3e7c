// Notices of findings: their number in the title of the tab, and, where somebody wants it,
// notifications of the desktop and a sound. What is wanted is kept by this browser.

import type { Dated } from "../data/api";
import { get } from "../data/client";
import { snapshot } from "../data/snapshot";
import { Fresh } from "./fresh";
import { here } from "./here.svelte";
import { server } from "./server.svelte";

/** How often the newest diagnosis is asked for, in milliseconds. */
const often = 10_000;

/** A diagnosis that is older has no number in the title. */
const oldest = 120_000;

/** The most notifications of one diagnosis; the last has the number of the others. */
const most = 3;

const key = "culprit.notices";

class Notices {
  #count = $state(0);
  #desktop = $state(false);
  #sound = $state(false);
  #why = $state("");
  #fresh = new Fresh();
  #audio: AudioContext | null = null;

  /** The findings of the newest diagnosis, and those that it lacks but that are not withdrawn. */
  get count(): number {
    return this.#count;
  }

  get desktop(): boolean {
    return this.#desktop;
  }

  get sound(): boolean {
    return this.#sound;
  }

  /** Why there are no notifications though somebody wants them; "" where there are. */
  get why(): string {
    return this.#why;
  }

  /** Asks for the diagnosis from time to time. Returns a function that ends it. */
  begin(): () => void {
    if (snapshot !== null) return () => {};
    try {
      const kept = (localStorage.getItem(key) ?? "").split(" ");
      this.#sound = kept.includes("sound");
      this.#desktop = kept.includes("desktop") && allowed() === "";
    } catch {
      // A browser that keeps nothing is quiet.
    }
    const stop = new AbortController();
    const ask = async () => {
      // A page that nobody sees costs the server nothing, unless somebody waits for notices.
      if (document.hidden && !this.#desktop && !this.#sound) return;
      try {
        const d = await get<Dated | { at_ms: null }>("diagnosis", {}, stop.signal);
        const known = d.at_ms !== null && server.at(Date.now()) - d.at_ms < oldest;
        const report = known ? (d as Dated).report : null;
        const findings = report?.findings ?? [];
        this.#count = findings.length + (report?.held ?? []).length;
        if (report) this.#tell(this.#fresh.take(findings, Date.now(), report.held));
      } catch {
        this.#count = 0; // the banner says that there is no connection
      }
    };
    void ask();
    const again = () => void ask();
    const timer = setInterval(again, often);
    document.addEventListener("visibilitychange", again);
    return () => {
      stop.abort();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }

  /** Turns notifications of the desktop on, if the browser allows it, or off. */
  async notify(on: boolean): Promise<void> {
    this.#why = "";
    if (on && typeof Notification !== "undefined" && Notification.permission === "default")
      await Notification.requestPermission();
    this.#why = on ? allowed() : "";
    this.#desktop = on && this.#why === "";
    this.#keep();
  }

  /** Turns the sound on, and plays it once; or off. */
  ring(on: boolean): void {
    this.#sound = on;
    this.#keep();
    if (on) this.#play();
  }

  #keep(): void {
    try {
      const words = [this.#desktop ? "desktop" : "", this.#sound ? "sound" : ""];
      localStorage.setItem(key, words.filter(Boolean).join(" "));
    } catch {
      // A browser that keeps nothing is asked again.
    }
  }

  #tell(findings: readonly { id: string; claim: string }[]): void {
    if (findings.length === 0) return;
    if (this.#sound) this.#play();
    if (!this.#desktop || allowed() !== "") return;
    const host = server.health?.host ?? "culprit";
    findings.slice(0, most).forEach((f, i) => {
      const others = i === most - 1 && findings.length > most ? findings.length - most : 0;
      const body = others > 0 ? `${f.claim}\nand ${others} more findings` : f.claim;
      const n = new Notification(`culprit: ${host}`, { body, tag: `culprit ${host} ${f.id}` });
      n.onclick = () => {
        window.focus();
        here.open("now");
        n.close();
      };
    });
  }

  /** Two short tones. */
  #play(): void {
    try {
      this.#audio ??= new AudioContext();
      const { currentTime: now, destination } = this.#audio;
      [660, 880].forEach((hertz, i) => {
        const tone = this.#audio!.createOscillator();
        const volume = this.#audio!.createGain();
        tone.frequency.value = hertz;
        volume.gain.setValueAtTime(0.15, now + i * 0.18);
        volume.gain.exponentialRampToValueAtTime(0.001, now + i * 0.18 + 0.16);
        tone.connect(volume).connect(destination);
        tone.start(now + i * 0.18);
        tone.stop(now + i * 0.18 + 0.17);
      });
    } catch {
      // Without a device for sound there is none.
    }
  }
}

/** Why this browser shows no notifications of this page; "" where it does. */
function allowed(): string {
  if (typeof Notification === "undefined" || !window.isSecureContext)
    return "browsers notify only from pages of https or of this machine (localhost)";
  return Notification.permission === "granted"
    ? ""
    : "this browser does not allow it: change the permissions of this page";
}

export const notices = new Notices();
