// Every world as an episode begins, as a link to its game.

import { Painter } from "./draw.js";

const worlds = await (await fetch("/scenes.json")).json();
for (const [name, { about, scene }] of Object.entries(worlds)) {
  const link = document.createElement("a");
  link.href = `/${encodeURIComponent(name)}`;
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const title = document.createElement("strong");
  title.textContent = name;
  const text = document.createElement("span");
  text.textContent = about;
  link.append(canvas, title, text);
  const item = document.createElement("li");
  item.append(link);
  document.getElementById("worlds").append(item);
  if (scene) new Painter(canvas).show(scene, 0);
}
