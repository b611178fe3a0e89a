// An ego bundle at work in Node: the same files and tensors as macop_aht.deploy.runtime, for one team.
//
//   const agent = await EgoAgent.load("agents/macop/LBF4");
//   agent.episodeBegin();
//   const actions = await agent.act(obs, mask);   // arrays of m rows: m x D numbers, m x A zeros and ones
//   await agent.episodeEnd(episodeReturn);
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import ort from "onnxruntime-node";

const FORMAT = 2;
const EPISODES_PER_HEAD = 4;

const floats = (values, dims) => new ort.Tensor("float32", Float32Array.from(values), dims);
const whole = (values, dims) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);

async function session(folder, manifest, name) {
  const content = await readFile(path.join(folder, name));
  if (createHash("sha256").update(content).digest("hex") !== manifest.sha256[name]) {
    throw new Error(`${name} is not the file that the manifest describes: its sha-256 differs`);
  }
  return ort.InferenceSession.create(content);
}

export class EgoAgent {
  // Without a selector: zero-shot where the bundle has it, else meta-test.
  static async load(folder, selector = undefined, budget = undefined) {
    if (selector === "thompson") throw new Error("thompson needs random draws; choose zero-shot, meta-test or halving");
    const manifest = JSON.parse(await readFile(path.join(folder, "manifest.json"), "utf8"));
    if (manifest.format !== FORMAT) {
      throw new Error(`the bundle is of format ${manifest.format}, this code reads ${FORMAT}; see \`macop convert\``);
    }
    selector ??= manifest.zero_shot ? "zero-shot" : "meta-test";
    const agent = new EgoAgent();
    agent.manifest = manifest;
    agent.network = await session(folder, manifest, "agent.onnx");
    agent.selector = await session(folder, manifest, `selectors/${selector}.onnx`);
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
      obs: floats(obs.flat(), [controllable, observations.length]),
      last_action: whole(this.lastAction, [controllable]),
      agent: whole([...Array(controllable).keys()], [controllable]),
      memory: floats(this.memory, [controllable, hidden]),
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
      obs: floats(obs.flat(), [1, controllable, observations.length]),
      last_action: whole(this.lastAction, [1, controllable]),
      agent: whole([...Array(controllable).keys()], [1, controllable]),
      belief: floats(this.belief, [1, this.belief.length]),
    });
    this.belief = Array.from(result.next_belief.data);
    this.head = Number(result.head.data[0]);
  }

  // The head for the next episode, from what the last one returned.
  async episodeEnd(episodeReturn) {
    if (this.byStep) return;
    const { run_heads } = this.manifest; // the generalist head, if there is one, is played by zero-shot alone
    const result = await this.selector.run({
      tried: floats(this.tried, [run_heads]),
      mean_return: floats(this.meanReturn, [run_heads]),
      last_head: whole([this.head], []),
      last_return: floats([episodeReturn], []),
      budget: whole([this.budget], []),
    });
    this.tried = Array.from(result.next_tried.data);
    this.meanReturn = Array.from(result.next_mean_return.data);
    this.head = Number(result.next_head.data[0]);
  }
}
