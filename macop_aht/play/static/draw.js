// Draws scenes on a canvas, and moves bodies smoothly from one scene to the next.

const FONT = 13; // pixels: the size of a number beside a body
const FADE = 0.35; // of the way between two scenes: bodies that come or go
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.bodies = new Map(); // by key: where it is going, and where it came from
    this.area = null;
    this.scene = null;
    this.you = null; // the agent that the person plays
    this.aim = null; // the body that the person's order is aimed at
    this.trails = false;
    this.tracks = new Map();
    this.picture = null;
    this.colours = getComputedStyle(document.documentElement);
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.wake());
    this.resize();
  }

  colour(name) {
    return this.colours.getPropertyValue(`--${name}`).trim() || "#888";
  }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    const dense = devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(width * dense));
    this.canvas.height = Math.max(1, Math.round(height * dense));
    this.width = width;
    this.height = height;
    this.pen.setTransform(dense, 0, 0, dense, 0, 0);
    this.wake();
  }

  forget() {
    this.bodies.clear();
    this.tracks.clear();
    this.area = this.scene = null;
    this.aim = null;
  }

  // Show a scene; bodies get there within so many milliseconds.
  show(scene, duration) {
    const now = performance.now();
    if (scene.picture) {
      this.picture = this.picture || new Image();
      this.picture.onload = () => this.wake();
      this.picture.src = scene.picture;
      return;
    }
    const at = this.progress(now);
    const fresh = new Map();
    for (const body of scene.bodies) {
      const known = this.bodies.get(body.key);
      const from = known && !known.gone ? this.place(known, at) : null;
      fresh.set(body.key, { ...body, from: from || { x: body.x, y: body.y }, born: !from });
      if (body.agent !== null) this.follow(body);
    }
    for (const [key, known] of this.bodies)
      if (!fresh.has(key) && !known.gone) fresh.set(key, { ...known, from: this.place(known, at), gone: true });
    this.from = this.area ? this.area.map((side, k) => side + (this.scene.area[k] - side) * at) : scene.area;
    this.area = this.from;
    this.bodies = fresh;
    this.scene = scene;
    this.begun = now;
    this.duration = still.matches ? 0 : duration;
    this.wake();
  }

  follow(body) {
    const track = this.tracks.get(body.agent) || [];
    track.push([body.x, body.y]);
    this.tracks.set(body.agent, track.slice(-200));
  }

  progress(now) {
    return this.duration > 0 ? Math.min(1, (now - this.begun) / this.duration) : 1;
  }

  place(body, at) {
    return { x: body.from.x + (body.x - body.from.x) * at, y: body.from.y + (body.y - body.from.y) * at };
  }

  wake() {
    if (!this.asked) this.asked = requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.asked = 0;
    this.pen.clearRect(0, 0, this.width, this.height);
    if (this.picture) {
      const { width, height } = this.picture;
      const scale = Math.min(this.width / width, this.height / height);
      const [w, h] = [width * scale, height * scale];
      this.pen.drawImage(this.picture, (this.width - w) / 2, (this.height - h) / 2, w, h);
      return;
    }
    if (!this.scene) return;
    const at = this.progress(now);
    this.look(this.area.map((side, k) => side + (this.scene.area[k] - side) * at));
    this.tiles();
    for (const ring of this.scene.rings) this.ring(ring);
    if (this.trails) for (const [agent, track] of this.tracks) this.trail(agent, track, at);
    for (const body of this.bodies.values()) {
      this.pen.globalAlpha = body.gone ? 1 - at : body.born ? Math.min(1, at / FADE) : 1;
      if (this.pen.globalAlpha > 0) this.body(body, this.place(body, at));
    }
    this.pen.globalAlpha = 1;
    if (at < 1) this.wake();
  }

  look([left, bottom, right, top]) {
    this.scale = Math.min(this.width, this.height) / Math.max(right - left, top - bottom);
    this.origin = [
      (this.width - (right - left) * this.scale) / 2 - left * this.scale,
      (this.height - (top - bottom) * this.scale) / 2 + top * this.scale,
    ];
  }

  at(x, y) {
    return [this.origin[0] + x * this.scale, this.origin[1] - y * this.scale];
  }

  tiles() {
    const [rows, columns] = this.scene.grid;
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) {
        const [x, y] = this.at(column, rows - row);
        this.pen.fillStyle = this.colour((row + column) % 2 ? "tile-dark" : "tile");
        this.pen.fillRect(Math.round(x), Math.round(y), Math.ceil(this.scale), Math.ceil(this.scale));
      }
  }

  ring([x, y, radius, role]) {
    this.circle(...this.at(x, y), radius * this.scale);
    this.pen.fillStyle = this.pen.strokeStyle = this.colour(role);
    this.pen.globalAlpha = 0.07;
    this.pen.fill();
    this.pen.globalAlpha = 0.3;
    this.pen.lineWidth = 1;
    this.pen.stroke();
    this.pen.globalAlpha = 1;
  }

  trail(agent, track, at) {
    const body = [...this.bodies.values()].find((each) => each.agent === agent);
    if (!body || track.length < 2) return;
    const here = this.place(body, at);
    const points = [...track.slice(0, -1), [here.x, here.y]];
    this.pen.strokeStyle = this.colour(body.role);
    this.pen.lineWidth = 5;
    for (let k = 1; k < points.length; k++) {
      this.pen.globalAlpha = 0.1 + (0.5 * k) / points.length;
      this.pen.beginPath();
      this.pen.moveTo(...this.at(...points[k - 1]));
      this.pen.lineTo(...this.at(...points[k]));
      this.pen.stroke();
    }
    this.pen.globalAlpha = 1;
  }

  circle(x, y, radius) {
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
  }

  size(body) {
    return Math.max(body.r * this.scale, Math.min(11, Math.max(8.5, this.width / 50))); // small bodies are enlarged
  }

  body(body, place) {
    const [x, y] = this.at(place.x, place.y);
    const radius = this.size(body);
    const colour = this.colour(body.role);
    (FORMS[body.role] || disc)(this, x, y, radius, colour);
    if (body.agent !== null && body.agent === this.you) this.mark(x, y, radius + 4, colour, []);
    if (body.key === this.aim) this.mark(x, y, radius + 7, this.colour("ink"), [4, 4]);
    this.label(body, x, y, radius, colour);
    body.gauges.forEach(([fraction, role], row) => this.gauge(x, y + radius + 8 + 6 * row, fraction, role));
  }

  mark(x, y, radius, colour, dashes) {
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = 2;
    this.pen.setLineDash(dashes);
    this.circle(x, y, radius);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  label(body, x, y, radius, colour) {
    if (!body.label) return;
    const inside = radius >= 8 || this.scene.grid[0] > 0;
    const size = inside ? Math.max(Math.min(FONT, 1.3 * radius), 0.95 * radius) : FONT;
    this.pen.font = `600 ${size}px system-ui, sans-serif`;
    this.pen.textAlign = inside ? "center" : "left";
    this.pen.textBaseline = inside ? "middle" : "bottom";
    if (inside) {
      this.pen.fillStyle = this.colour("label");
      this.pen.fillText(body.label, x, y + 0.05 * size);
      return;
    }
    this.pen.lineWidth = 4;
    this.pen.strokeStyle = this.colour("card");
    this.pen.strokeText(body.label, x + 1.1 * radius, y - 0.9 * radius);
    this.pen.fillStyle = colour;
    this.pen.fillText(body.label, x + 1.1 * radius, y - 0.9 * radius);
  }

  gauge(x, y, fraction, role) {
    const [width, height] = [Math.max(20, Math.min(28, this.width / 18)), 4];
    this.pen.fillStyle = this.colour("line");
    this.pen.fillRect(x - width / 2, y - height / 2, width, height);
    this.pen.fillStyle = this.colour(role);
    this.pen.fillRect(x - width / 2, y - height / 2, width * Math.max(0, Math.min(1, fraction)), height);
  }

  // The body that an order can be aimed at nearest to a point of the canvas; undefined where none is near.
  aimed(x, y) {
    if (!this.scene || this.picture) return undefined;
    const near = [...this.bodies.values()]
      .filter((body) => !body.gone && body.action !== null)
      .map((body) => ({ body, distance: Math.hypot(...this.away(body, x, y)) - this.size(body) }))
      .filter(({ distance }) => distance < 16)
      .sort((one, other) => one.distance - other.distance);
    return near[0]?.body;
  }

  away(body, x, y) {
    const [bx, by] = this.at(body.x, body.y);
    return [x - bx, y - by];
  }
}

function disc(painter, x, y, radius, colour) {
  painter.circle(x, y, radius);
  painter.pen.fillStyle = colour;
  painter.pen.fill();
  painter.pen.lineWidth = 1.5;
  painter.pen.strokeStyle = painter.colour("card");
  painter.pen.stroke();
}

function fruit(painter, x, y, radius, colour) {
  disc(painter, x, y, radius, colour);
  painter.pen.beginPath();
  painter.pen.ellipse(x + 0.3 * radius, y - 1.15 * radius, 0.32 * radius, 0.18 * radius, -0.5, 0, 2 * Math.PI);
  painter.pen.fillStyle = colour;
  painter.pen.fill();
}

function animal(painter, x, y, radius, colour) {
  painter.pen.fillStyle = colour;
  for (const side of [-0.62, 0.62]) {
    painter.pen.beginPath();
    painter.pen.ellipse(x + side * radius, y - 0.8 * radius, 0.35 * radius, 0.5 * radius, 0, 0, 2 * Math.PI);
    painter.pen.fill();
  }
  disc(painter, x, y, radius, colour);
}

function target(painter, x, y, radius, colour) {
  painter.pen.strokeStyle = colour;
  painter.pen.lineWidth = 2.5;
  for (const share of [1, 0.55]) {
    painter.circle(x, y, share * radius);
    painter.pen.stroke();
  }
  disc(painter, x, y, 0.15 * radius, colour);
}

function diamond(painter, x, y, radius, colour) {
  const reach = 1.25 * radius;
  painter.pen.beginPath();
  for (const [dx, dy] of [[0, -1], [1, 0], [0, 1], [-1, 0]]) painter.pen.lineTo(x + dx * reach, y + dy * reach);
  painter.pen.closePath();
  painter.pen.fillStyle = colour;
  painter.pen.fill();
  painter.pen.lineWidth = 1.5;
  painter.pen.strokeStyle = painter.colour("card");
  painter.pen.stroke();
}

const FORMS = { food: fruit, prey: animal, landmark: target, enemy: diamond }; // other roles are discs
