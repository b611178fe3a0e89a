// The side panel: returns, beliefs, and the choices of who plays.

const $ = (id) => document.getElementById(id);
const LONGEST = 24; // episodes in the history

export class Returns {
  constructor() {
    this.forget();
  }

  forget() {
    this.ended = [];
    $("history").replaceChildren();
    $("history").setAttribute("aria-label", "No episode has ended yet");
  }

  show(state) {
    $("score").textContent = state.score.toFixed(2);
    $("mean").textContent = state.mean === null ? "–" : state.mean.toFixed(2);
    $("mean-of").textContent =
      state.episodes === 0 ? "mean over episodes" : `mean over ${state.episodes} episode${state.episodes > 1 ? "s" : ""}`;
    if (state.over && this.ended.length < state.episodes) this.add(state);
  }

  add(state) {
    this.ended.push(state.score);
    const bar = document.createElement("i");
    bar.title = `return ${state.score.toFixed(2)}`;
    $("history").append(bar);
    while ($("history").children.length > LONGEST) $("history").firstChild.remove();
    const shown = this.ended.slice(-LONGEST);
    const most = Math.max(1, ...shown);
    [...$("history").children].forEach((each, k) => {
      each.style.height = `${Math.max(8, (100 * Math.max(0, shown[k])) / most)}%`;
      each.classList.toggle("good", shown[k] > 0);
    });
    $("history").setAttribute("aria-label", `Returns of the last episodes: ${shown.map((value) => value.toFixed(2)).join(", ")}`);
  }
}

const TITLES = { belief: "What the agent believes", returns: "What its heads have returned", none: "The agent" };

export function showMind({ kind, head, bars }) {
  $("mind-title").textContent = TITLES[kind];
  $("head").replaceChildren(...told(kind, head));
  const list = $("beliefs");
  while (list.children.length > bars.length) list.lastChild.remove();
  while (list.children.length < bars.length) list.append(row());
  const most = Math.max(...bars.map((bar) => bar[1]), kind === "belief" ? 0 : 1e-9);
  const alone = bars.filter((bar) => bar[1] === most).length === 1;
  bars.forEach(([label, value, own, tried], k) => {
    const [name, track, figure] = list.children[k].children;
    const texts = kind === "belief"
      ? [label, `${Math.round(100 * value)}%`, value]
      : [`${label} · ${tried}×`, tried ? value.toFixed(2) : "–", value / Math.max(most, 1e-9)];
    name.textContent = texts[0];
    figure.textContent = texts[1];
    track.firstChild.style.width = `${Math.max(0, Math.min(100, 100 * texts[2]))}%`;
    list.children[k].classList.toggle("leading", alone && value === most);
    list.children[k].title = kind === "belief" ? `the best head for it is ${own}` : "";
  });
}

function told(kind, head) {
  if (kind === "none") return ["It has no beliefs: it is a fixed policy."];
  if (!head) return ["It has not moved yet. How likely its teammate is one of the groups that it knows:"];
  const name = document.createElement("b");
  name.textContent = head === "generalist" ? "its generalist head" : `head ${head}`;
  const why = { belief: ". How likely its teammate is one of the groups that it knows:", returns: ". The mean return of each, and how often it was tried:" };
  return ["It plays ", name, why[kind]];
}

function row() {
  const item = document.createElement("li");
  const [name, track, figure] = ["span", "span", "b"].map((tag) => document.createElement(tag));
  track.className = "track";
  track.append(document.createElement("i"));
  item.append(name, track, figure);
  return item;
}

// The choices. `start(options)` begins a new game with them.
export class Settings {
  constructor(start) {
    this.start = start;
    this.welcome = null;
    $("mode-person").addEventListener("click", () => start({ person: true }));
    $("mode-watch").addEventListener("click", () => start({ person: false }));
    for (const name of ["agent", "selector", "teammate"])
      $(name).addEventListener("change", () => start({ [name]: $(name).value }));
    $("restart").addEventListener("click", () => start({}));
    $("scenario").addEventListener("change", () => (location.href = `/${encodeURIComponent($("scenario").value)}`));
  }

  show(welcome) {
    this.welcome = welcome;
    const { choice, agents, teammates, others, pace } = welcome;
    fill($("agent"), Object.keys(agents), choice.agent);
    fill($("selector"), agents[choice.agent], choice.selector);
    fill($("teammate"), teammates, choice.teammate);
    $("selector-row").hidden = !agents[choice.agent].length;
    $("teammate-row").hidden = choice.person && others === 0;
    $("teammate-row").firstChild.textContent = choice.person ? "Further teammates " : "Teammate ";
    $("mode-person").setAttribute("aria-pressed", choice.person);
    $("mode-watch").setAttribute("aria-pressed", !choice.person);
    $("pace").value = String(pace);
  }
}

function fill(select, names, chosen) {
  if (select.dataset.names !== names.join("\n")) {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    select.dataset.names = names.join("\n");
  }
  select.value = chosen;
}
