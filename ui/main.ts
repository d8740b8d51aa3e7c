import { mount } from "svelte";
import "./parts/page.css";
import { askBy, beginSession } from "./data/client";
import Page from "./parts/Page.svelte";
import { session } from "./state/session.svelte";

askBy(() => session.ask());
// Without the secret the page can view, and asks for the token when it is to change something.
void beginSession().catch(() => undefined);

const target = document.getElementById("page");
if (target) mount(Page, { target });
