// Plays recorded episodes with a bundle, and shows the actions. The page's address may name both, as folders and files of
// the same server: index.html?bundle=../../agents/macop-plus/LBF4&recording=recording.json&selector=zero-shot
// A recording is a list of episodes: {steps: [{obs, mask}, ...], return: number}.
import * as ort from "onnxruntime-web";
import { EgoAgent } from "../node/ego_agent.mjs";

const asked = new URLSearchParams(location.search);
const bundle = asked.get("bundle") ?? "../../agents/macop-plus/LBF4";
const recording = asked.get("recording") ?? "recording.json";
const status = document.querySelector("#status");

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} cannot be loaded (${answer.status}); serve the whole repository`);
  return new Uint8Array(await answer.arrayBuffer());
}

function show(episode, { head, actions }, total) {
  const row = document.querySelector("#episodes").insertRow();
  for (const text of [episode, total, head, actions.join(" ")]) row.insertCell().textContent = text;
}

async function play() {
  const agent = await EgoAgent.load((name) => fetched(`${bundle}/${name}`), ort, asked.get("selector") ?? undefined);
  const played = [];
  for (const episode of JSON.parse(new TextDecoder().decode(await fetched(recording)))) {
    agent.episodeBegin();
    const actions = [];
    for (const { obs, mask } of episode.steps) actions.push(await agent.act(obs, mask));
    played.push({ head: agent.head, actions });
    show(played.length, played.at(-1), episode.return);
    await agent.episodeEnd(episode.return);
  }
  const { scenario, method } = agent.manifest;
  status.textContent = `${method} on ${scenario}: ${played.length} episodes played`;
  return played;
}

window.played = play().catch((error) => {
  status.textContent = String(error);
  throw error;
});
