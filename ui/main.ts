import { mount } from "svelte";
import "./parts/page.css";
import { askBy, beginSession } from "./data/client";
import { Snapshot, snapshot } from "./data/snapshot";
import Page from "./parts/Page.svelte";
import { session } from "./state/session.svelte";

askBy(() => session.ask());
// Without the secret the page can view, and asks for the token when it is to change something.
if (snapshot === null) void beginSession().catch(() => undefined);

if (snapshot instanceof Snapshot && location.hash === "")
  history.replaceState(null, "", `#${snapshot.content.place}`);

const target = document.getElementById("page");
if (target && typeof snapshot === "string") {
  const why = target.appendChild(document.createElement("p"));
  why.className = "refused";
  why.setAttribute("role", "alert");
  why.textContent = snapshot;
} else if (target) mount(Page, { target });
