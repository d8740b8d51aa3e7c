// The page in one file: one profile, which is in the document.

import { mount } from "svelte";
import "./parts/page.css";
import File from "./parts/profile/File.svelte";

const target = document.getElementById("page");
if (target) mount(File, { target });
