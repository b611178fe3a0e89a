// The page of a game: the connection to the server, and what happens when.

import { Painter } from "./draw.js";
import { Input, keyName } from "./input.js";
import { Returns, Settings, showMind } from "./panel.js";

const $ = (id) => document.getElementById(id);
const TURN = 170; // milliseconds that a turn's movement takes
const AGAIN = 140; // milliseconds between two turns while a key is held
const CLOSED = { 1013: "no room for another game", 1008: "closed by the server; reload to go on" };
const NAMES = { ego: "agent", food: "food", prey: "prey", landmark: "landmark", enemy: "enemy" };

const touch = matchMedia("(pointer: coarse)");

const painter = new Painter($("canvas"));
const returns = new Returns();
const settings = new Settings(start);
const input = new Input(painter, $("canvas"), { give, release });
const game = { socket: null, state: null, welcome: null, pace: 0, person: true, paused: false, retries: 0, last: 0 };

function send(message) {
  if (game.socket?.readyState === WebSocket.OPEN) game.socket.send(JSON.stringify(message));
}

function connect() {
  const socket = new WebSocket(`ws://${location.host}/${encodeURIComponent(document.body.dataset.scenario)}/game`);
  game.socket = socket;
  game.asked = wishes();
  socket.addEventListener("message", (event) => hear(JSON.parse(event.data)));
  socket.addEventListener("close", (event) => lost(event.code));
}

// What the address asks for, so that a reload and a link keep the choices.
function wishes() {
  const query = new URLSearchParams(location.search);
  const found = Object.fromEntries(["agent", "selector", "teammate"].filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  if (query.has("watch")) found.person = false;
  return Object.keys(found).length ? found : null;
}

function lost(code) {
  link(CLOSED[code] || "connection lost", true);
  if (CLOSED[code]) return;
  game.retries += 1;
  if (game.retries > 5) banner("The server is gone", "Start it again with `macop play`, then reload this page.", "Reload", () => location.reload());
  else setTimeout(connect, 1000 * game.retries);
}

function link(text, bad = false) {
  $("link").textContent = text;
  $("link").classList.toggle("bad", bad);
}

function hear(message) {
  if (message.type === "welcome") meet(message);
  else if (message.type === "state") show(message);
  else if (message.type === "error") toast(message.text);
}

function meet(welcome) {
  game.retries = 0;
  link("connected");
  if (game.asked) {
    const asked = game.asked;
    game.asked = null;
    send({ type: "start", person: true, ...asked });
  }
  Object.assign(game, { welcome, pace: welcome.pace, person: welcome.choice.person, state: null, paused: false });
  $("pause").setAttribute("aria-pressed", false);
  painter.forget();
  painter.you = game.person ? welcome.seat : null;
  returns.forget();
  settings.show(welcome);
  const aims = input.build($("pad"), $("extra"), welcome.controls);
  game.aims = aims;
  document.body.dataset.watching = !game.person;
  hint();
}

function hint() {
  const moves = game.pace === 0 ? "Each key is a step" : "Hold a key to go on";
  const stay = game.welcome.controls.find((control) => control.keys.includes("Space"));
  const idle = stay ? stay.name : "stay";
  const parts = touch.matches
    ? [`Touch the board where you want to go, or use the buttons. ${game.pace === 0 ? "Each touch is a step." : ""}`]
    : [`Arrows or WASD. ${moves}; space: ${idle}.`];
  if (game.aims) parts.push(touch.matches ? "Touch an enemy to attack it." : "Click an enemy to attack it, or press its digit.");
  $("hint").textContent = game.person ? parts.join(" ") : game.pace === 0 ? "Space or Enter: the next step." : "Two policies play; lean back.";
}

function show(state) {
  const before = game.state;
  game.state = state;
  if (!before || state.step === 0) painter.forget();
  painter.show(state.scene, before && state.step ? (game.pace ? 1000 / game.pace : TURN) : 0);
  const target = state.scene.bodies?.find((body) => body.key === painter.aim);
  if (!target || state.over) painter.aim = null;
  returns.show(state);
  showMind(state.mind);
  const bodies = state.scene.bodies || [];
  const alive = !bodies.length || bodies.some((body) => body.agent === game.welcome.seat);
  const aimed = alive ? bodies.map((body) => body.action) : []; // an order for a body that is out of reach leads there
  input.allow(state.mask, aimed, !game.person || state.over);
  if (game.person && !alive && !state.over) $("hint").textContent = "Your unit has fallen. The agent fights on.";
  else if (state.step === 0) hint();
  $("step").textContent = `Episode ${Math.max(1, state.episode)} · step ${state.step} of ${game.welcome.limit}`;
  $("meter").firstChild.style.width = `${(100 * state.step) / game.welcome.limit}%`;
  if (!before) legend(state.scene);
  announce(state, before);
}

function legend(scene) {
  const roles = [...new Set((scene.bodies || []).map((body) => body.role))];
  roles.sort((one, other) => Object.keys(NAMES).indexOf(one) - Object.keys(NAMES).indexOf(other));
  $("legend").replaceChildren(
    ...roles.map((role) => {
      const item = document.createElement("li");
      item.dataset.role = role;
      item.textContent = role === "mate" ? (game.person ? "you" : "teammate") : NAMES[role] || role;
      return item;
    }),
  );
}

function announce(state, before) {
  if (state.over && game.person) {
    const [title, text] = verdict(state);
    banner(title, text, "Next episode ⏎", () => send({ type: "next" }), state.score > 0);
    $("live").textContent = spoken(title, text);
  } else if (state.waiting) {
    const clock = game.pace === 0 ? "The world waits for your moves." : "The clock starts with your first move.";
    banner("You are the unknown teammate", `${game.welcome.about}. ${clock}`, "Start ⏎", begin);
  } else {
    $("banner").hidden = true;
    if (state.over) $("live").textContent = spoken(...verdict(state));
    else if (state.scene.grid?.[0] && (game.pace === 0 || !before)) $("live").textContent = places(state);
  }
}

function verdict({ score, step, outcome, won }) {
  const late = step >= game.welcome.limit ? "Time is up" : "Defeat";
  const title = won === true ? "Victory!" : won === false ? late : score > 0 ? "Well done, together!" : "No luck this time";
  const how = outcome ? `${outcome} · ` : "";
  return [title, `${how}return ${score.toFixed(2)} after ${step} steps`];
}

const spoken = (title, text) => `${title}${title.endsWith("!") ? "" : "."} ${text}`;

// Where everybody is on a grid, for those who hear the page.
function places({ scene, step }) {
  const rows = scene.grid[0];
  const told = scene.bodies
    .filter((body) => body.agent !== null)
    .map((body) => `${body.agent === painter.you ? "you" : body.role === "ego" ? "agent" : "teammate"}: row ${Math.round(rows - body.y + 0.5)}, column ${Math.round(body.x + 0.5)}`);
  return `Step ${step}. ${told.join("; ")}.`;
}

function banner(title, text, button, action, good = false) {
  $("banner-title").textContent = title;
  $("banner-text").textContent = text;
  $("go").textContent = button;
  game.go = action;
  $("banner").classList.toggle("good", good);
  $("banner").hidden = false;
}

function begin() {
  $("canvas").focus();
  $("banner").hidden = true;
  if (game.pace === 0) return;
  const stay = game.welcome.controls.find((control) => control.keys.includes("Space"));
  give(stay ? stay.action : 0, false);
  release(stay ? stay.action : 0);
}

function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => ($("toast").hidden = true), 6000);
}

function give(action, again) {
  if (!game.state || game.paused || (game.person ? game.state.over : game.pace > 0)) return;
  const now = performance.now();
  if (again && game.pace > 0 && game.last === action) return; // it is held already
  if (again && game.pace === 0 && now - game.at < AGAIN) return;
  Object.assign(game, { last: action, at: now });
  painter.aim = game.state.scene.bodies?.find((body) => body.action === action)?.key ?? null;
  send({ type: "act", action });
}

function release(action) {
  game.last = null;
  if (game.pace > 0) send({ type: "release", action });
}

function start(changes) {
  const asked = { agent: $("agent").value, selector: $("selector").value, teammate: $("teammate").value, person: game.person, ...changes };
  if ("agent" in changes) asked.selector = "";
  send({ type: "start", ...asked });
  const query = new URLSearchParams();
  for (const name of ["agent", "selector", "teammate"]) if (asked[name]) query.set(name, asked[name]);
  if (!asked.person) query.set("watch", "1");
  history.replaceState(null, "", `?${query}`);
}

$("go").addEventListener("click", () => game.go?.());
$("trails").addEventListener("change", (event) => {
  painter.trails = event.target.checked;
  painter.wake();
});
$("pace").addEventListener("change", (event) => {
  game.pace = Number(event.target.value);
  send({ type: "pace", steps: game.pace });
  hint();
});
$("pause").addEventListener("click", () => {
  game.paused = !game.paused;
  $("pause").setAttribute("aria-pressed", game.paused);
  send({ type: "pause", on: game.paused });
});
addEventListener("keydown", (event) => {
  if (!input.ours(event) || event.repeat) return;
  if (event.code === "Enter" && !$("banner").hidden) game.go?.();
  else if (event.code === "Enter" && !game.person) send({ type: "act", action: 0 });
  else if (event.code === "KeyP") $("pause").click();
});

connect();
