/**
 * What the worker processes of a vertex do right now: a flame graph of two seconds, and the stacks of their threads.
 * Part of the page "Job". It is asked for by a click only, because py-spy has to sample the processes.
 */

import { h } from "../elements.js";
import { clockTime, count, percent } from "../format.js";
import { button, cardWith, pictured, table } from "../parts.js";
import { flameGraph, ownShares } from "../pictures/flame_graph.js";
import { get, part } from "../rest.js";

export function workerStacks(vertex, context, job) {
  const { state } = context;
  const base = `/jobs/${part(job.id)}`;
  const ask = async (name, path) => {
    state.sampling = name;
    state.sampleProblem = null;
    context.update();
    try {
      state.sampled = { name, vertex: vertex.id, answer: await get(path) };
    } catch (error) {
      state.sampleProblem = error.message;
    }
    state.sampling = null;
    context.update();
  };
  const order = (name, text, path) =>
    button(state.sampling === name ? "Sampling…" : text, () => ask(name, path), { disabled: Boolean(state.sampling), class: "button" });
  const sampled = state.sampled && state.sampled.vertex === vertex.id ? state.sampled : null;
  return cardWith(
    "Worker processes",
    h(
      "div",
      { class: "row" },
      order("flames", "Flame graph (2 s)", `${base}/vertices/${part(vertex.id)}/flamegraph?type=full`),
      order("stacks", "Stacks now", `${base}/flott/vertices/${part(vertex.id)}/stacks`),
    ),
    state.sampleProblem ? h("p", { class: "problem", role: "alert" }, state.sampleProblem) : null,
    sampled === null
      ? h("p", { class: "quiet" }, "py-spy looks into the running workers of this vertex without stopping them, if it is installed beside the JobManager.")
      : sampled.name === "flames" ? flames(sampled.answer) : stacks(sampled.answer),
  );
}

function flames({ endTimestamp, data }) {
  if (!data) return h("p", { class: "empty" }, "No flame graph can be had: py-spy is not installed beside the JobManager, or no worker of the vertex runs on its machine.");
  if (data.value === 0) return h("p", { class: "empty" }, "No sample was taken: the workers were between two epochs. Ask again.");
  return h(
    "div",
    { class: "stack" },
    h("p", { class: "quiet" }, `${count(data.value)} samples, until ${clockTime(endTimestamp)}.`),
    pictured(flameGraph(data), "The flame graph", () =>
      table({
        caption: "Functions by their own time",
        rows: ownShares(data).slice(0, 100),
        columns: [
          { title: "Function", wide: true, cell: (row) => h("code", null, row.name) },
          { title: "Samples", number: true, cell: (row) => count(row.samples) },
          { title: "Share", number: true, cell: (row) => percent(row.share) },
        ],
      }),
    ),
  );
}

function stacks({ available, reason, processes }) {
  if (!available) return h("p", { class: "empty" }, reason);
  return processes.map((process) =>
    h(
      "div",
      { class: "stack tight" },
      h("h3", null, `Process ${process.pid}: ${process.subtasks.join(", ")}`),
      process.threads.map((thread) =>
        h(
          "details",
          { open: thread.active },
          h("summary", null, `${thread.name}${thread.active ? ", active" : ""}`),
          h("pre", { class: "code" }, thread.frames.map((frame) => `${frame.name} (${frame.file}:${frame.line})`).join("\n")),
        ),
      ),
    ),
  );
}
