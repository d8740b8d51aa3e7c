import { mount } from "svelte";
import "./parts/page.css";
import Page from "./parts/Page.svelte";

const target = document.getElementById("page");
if (target) mount(Page, { target });
