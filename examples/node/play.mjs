// Plays recorded episodes and prints the actions, as JSON: node play.mjs BUNDLE RECORDING.json [SELECTOR]
// A recording is a list of episodes: {steps: [{obs, mask}, ...], return: number}.
import { readFile } from "node:fs/promises";
import path from "node:path";
import ort from "onnxruntime-node";
import { EgoAgent } from "./ego_agent.mjs";

const [bundle, recording, selector] = process.argv.slice(2);
if (!recording) {
  console.error("usage: node play.mjs BUNDLE RECORDING.json [SELECTOR]");
  process.exit(2);
}
const agent = await EgoAgent.load((name) => readFile(path.join(bundle, name)), ort, selector);
const played = [];
for (const episode of JSON.parse(await readFile(recording, "utf8"))) {
  agent.episodeBegin();
  const actions = [];
  for (const { obs, mask } of episode.steps) actions.push([...(await agent.act(obs, mask))]);
  played.push({ head: agent.head, actions });
  await agent.episodeEnd(episode.return);
}
console.log(JSON.stringify(played));
