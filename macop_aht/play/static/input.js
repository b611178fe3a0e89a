// Orders by keys, buttons, and touches of the board. `give(action)` and `release(action)` pass them on.

export class Input {
  constructor(painter, canvas, { give, release }) {
    this.painter = painter;
    this.controls = [];
    this.held = []; // actions whose keys or buttons are down, the latest last
    this.give = give;
    this.release = release;
    addEventListener("keydown", (event) => this.down(event));
    addEventListener("keyup", (event) => this.up(event));
    addEventListener("blur", () => this.drop());
    canvas.addEventListener("pointerdown", (event) => this.touch(event, canvas));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => this.lift());
    canvas.addEventListener("pointermove", (event) => {
      const body = this.painter.aimed(event.offsetX, event.offsetY);
      canvas.style.cursor = body ? "crosshair" : "";
    });
  }

  control(code) {
    return this.controls.find((control) => control.keys.includes(code));
  }

  // Keys belong to the game, except where something on the page uses them.
  ours(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const tag = event.target.tagName;
    if (tag === "SELECT" || tag === "INPUT") return false;
    return !((tag === "BUTTON" || tag === "A") && (event.code === "Space" || event.code === "Enter"));
  }

  down(event) {
    const control = this.control(event.code);
    if (!control || !this.ours(event)) return;
    event.preventDefault();
    this.press(control.action, event.repeat);
  }

  up(event) {
    const control = this.control(event.code);
    if (control) this.unpress(control);
  }

  press(action, again = false) {
    if (!this.held.includes(action)) this.held.push(action);
    this.give(action, again);
  }

  unpress(control) {
    if (!this.held.includes(control.action)) return;
    this.held = this.held.filter((action) => action !== control.action);
    if (!control.held) return;
    this.release(control.action);
    const before = this.held.at(-1);
    if (before !== undefined) this.give(before, true);
  }

  drop() {
    for (const action of this.held.splice(0)) this.release(action);
    this.touched = null;
  }

  // A touch aims at a body, or leads into the direction of the point; on one's own body it stays.
  touch(event, canvas) {
    canvas.setPointerCapture(event.pointerId);
    const body = this.painter.aimed(event.offsetX, event.offsetY);
    if (body) {
      this.give(body.action, false);
      return;
    }
    const own = [...this.painter.bodies.values()].find((each) => each.agent === this.painter.you);
    if (!own) return;
    const [dx, dy] = this.painter.away(own, event.offsetX, event.offsetY);
    const way =
      Math.hypot(dx, dy) < this.painter.size(own) ? "" : Math.abs(dx) > Math.abs(dy) ? (dx > 0 ? "east" : "west") : dy > 0 ? "south" : "north";
    this.touched = this.controls.find((control) => (way ? control.way === way : control.keys.includes("Space")));
    if (this.touched) this.press(this.touched.action);
  }

  lift() {
    if (this.touched) this.unpress(this.touched);
    this.touched = null;
  }

  // Make the buttons: the directions around the one that stays, and the others beside them.
  build(pad, extra, controls) {
    this.drop();
    this.controls = controls;
    pad.replaceChildren();
    extra.replaceChildren();
    const aimable = controls.filter((control) => control.name.startsWith("attack"));
    for (const control of controls) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = control.label;
      button.dataset.action = control.action;
      const where = control.way || (control.keys.includes("Space") ? "stay" : "");
      if (where) button.dataset.way = where;
      button.setAttribute("aria-label", control.way ? `go ${control.name}` : control.name);
      if (control.keys.length) button.title = `${control.name}: ${control.keys.map(keyName).join(" or ")}`;
      this.wire(button, control);
      (where ? pad : extra).append(button);
    }
    pad.hidden = !pad.children.length;
    extra.hidden = !extra.children.length;
    return aimable.length > 0;
  }

  wire(button, control) {
    let byPointer = false;
    button.addEventListener("pointerdown", (event) => {
      byPointer = true;
      if (event.pointerType !== "mouse") event.preventDefault();
      this.press(control.action);
    });
    for (const kind of ["pointerup", "pointercancel", "pointerleave"])
      button.addEventListener(kind, () => this.unpress(control));
    button.addEventListener("click", () => {
      if (!byPointer) {
        this.press(control.action); // by keyboard, or by a screen reader
        this.unpress(control);
      }
      byPointer = false;
    });
  }

  // Dim what is not available now.
  allow(mask, aimed, everything) {
    for (const button of document.querySelectorAll("[data-action]")) {
      const action = Number(button.dataset.action);
      button.toggleAttribute("data-off", !everything && !mask[action] && !aimed.includes(action));
    }
  }
}

export function keyName(code) {
  return code.replace(/^(Key|Digit|Arrow)/, "").replace("Numpad", "Num ");
}
