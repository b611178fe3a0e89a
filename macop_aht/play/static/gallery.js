// Draws every world as an episode begins.

import { Painter } from "./draw.js";

for (const canvas of document.querySelectorAll("[data-world]"))
  fetch(`/${canvas.dataset.world}/scene.json`)
    .then((answer) => answer.json())
    .then((scene) => new Painter(canvas).show(scene, 0))
    .catch(() => canvas.classList.add("missing")); // a world that cannot show itself keeps its link
