// An ego bundle at work in JavaScript: the same files and tensors as macop_aht.deploy.runtime, for one team.
// It knows neither Node nor the browser. `read` returns a file of the bundle as bytes; `ort` is onnxruntime-node or
// onnxruntime-web.
//
//   const agent = await EgoAgent.load((name) => readFile(`agents/macop/LBF4/${name}`), ort);
//   agent.episodeBegin();
//   const actions = await agent.act(obs, mask);   // arrays of m rows: m x D numbers, m x A zeros and ones
//   await agent.episodeEnd(episodeReturn);
const FORMAT = 2;
const EPISODES_PER_HEAD = 4;

async function sha256(content) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function session(read, ort, manifest, name) {
  const content = await read(name);
  if ((await sha256(content)) !== manifest.sha256[name]) {
    throw new Error(`${name} is not the file that the manifest describes: its sha-256 differs`);
  }
  return ort.InferenceSession.create(content);
}

export class EgoAgent {
  // Without a selector: zero-shot where the bundle has it, else meta-test.
  static async load(read, ort, selector = undefined, budget = undefined) {
    if (selector === "thompson") throw new Error("thompson needs random draws; choose zero-shot, meta-test or halving");
    const manifest = JSON.parse(new TextDecoder().decode(await read("manifest.json")));
    if (manifest.format !== FORMAT) {
      throw new Error(`the bundle is of format ${manifest.format}, this code reads ${FORMAT}; see \`macop convert\``);
    }
    selector ??= manifest.zero_shot ? "zero-shot" : "meta-test";
    const agent = new EgoAgent();
    agent.manifest = manifest;
    agent.floats = (values, dims) => new ort.Tensor("float32", Float32Array.from(values), dims);
    agent.whole = (values, dims) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);
    agent.network = await session(read, ort, manifest, "agent.onnx");
    agent.selector = await session(read, ort, manifest, `selectors/${selector}.onnx`);
    agent.budget = budget ?? EPISODES_PER_HEAD * manifest.run_heads;
    agent.tried = new Array(manifest.run_heads).fill(0);
    agent.meanReturn = new Array(manifest.run_heads).fill(0);
    agent.byStep = selector === "zero-shot";
    if (agent.byStep) {
      const size = Object.values(manifest.zero_shot.belief).reduce((sum, part) => sum + part, 0);
      agent.belief = new Array(size).fill(0);
    }
    agent.head = agent.byStep ? 0 : -1;
    await agent.episodeEnd(0);
    agent.episodeBegin();
    return agent;
  }

  episodeBegin() {
    const { controllable, hidden } = this.manifest;
    this.memory = new Array(controllable * hidden).fill(0);
    this.lastAction = new Array(controllable).fill(-1);
  }

  async act(obs, mask) {
    const { controllable, hidden, observations, actions, heads } = this.manifest;
    if (obs.length !== controllable || obs.some((row) => row.length !== observations.length)) {
      throw new Error(`obs must be ${controllable} x ${observations.length} for ${this.manifest.scenario}`);
    }
    if (this.byStep) await this.recognise(obs);
    const result = await this.network.run({
      obs: this.floats(obs.flat(), [controllable, observations.length]),
      last_action: this.whole(this.lastAction, [controllable]),
      agent: this.whole([...Array(controllable).keys()], [controllable]),
      memory: this.floats(this.memory, [controllable, hidden]),
    });
    const q = result.q.data; // controllable x heads x actions
    const chosen = mask.map((allowed, row) => {
      const at = (row * heads + this.head) * actions.length;
      let best = -1;
      for (let a = 0; a < actions.length; a += 1) {
        if (allowed[a] && (best < 0 || q[at + a] > q[at + best])) best = a;
      }
      if (best < 0) throw new Error(`mask leaves no action to agent ${row}`);
      return best;
    });
    this.memory = Array.from(result.next_memory.data);
    this.lastAction = chosen;
    return [...chosen];
  }

  // The head for this step, by who the teammates seem to be.
  async recognise(obs) {
    const { controllable, observations } = this.manifest;
    const result = await this.selector.run({
      obs: this.floats(obs.flat(), [1, controllable, observations.length]),
      last_action: this.whole(this.lastAction, [1, controllable]),
      agent: this.whole([...Array(controllable).keys()], [1, controllable]),
      belief: this.floats(this.belief, [1, this.belief.length]),
    });
    this.belief = Array.from(result.next_belief.data);
    this.head = Number(result.head.data[0]);
  }

  // The head for the next episode, from what the last one returned.
  async episodeEnd(episodeReturn) {
    if (this.byStep) return;
    const { run_heads } = this.manifest; // the generalist head, if there is one, is played by zero-shot alone
    const result = await this.selector.run({
      tried: this.floats(this.tried, [run_heads]),
      mean_return: this.floats(this.meanReturn, [run_heads]),
      last_head: this.whole([this.head], []),
      last_return: this.floats([episodeReturn], []),
      budget: this.whole([this.budget], []),
    });
    this.tried = Array.from(result.next_tried.data);
    this.meanReturn = Array.from(result.next_mean_return.data);
    this.head = Number(result.next_head.data[0]);
  }
}
