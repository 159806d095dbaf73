/**
 * Submit: upload a program, look at its plan, and run it with arguments, a parallelism and a savepoint.
 */

import { jobAddress } from "../addresses.js";
import { checkbox, confirm, field, notify } from "../dialogs.js";
import { h } from "../elements.js";
import { button, card, moment, pictured, table } from "../parts.js";
import { graph, strategy } from "../pictures/graph.js";
import { features, get, part, post, remove, upload } from "../rest.js";

export default { title: () => "Submit", load, view, pause: 10000 };

function load(context, signal) {
  return Promise.all([get("/jars", { signal }), features()]).then(([jars, may]) => ({ files: jars.files, may }));
}

function view({ files, may }, context) {
  const chosen = files.find((file) => file.id === context.state.program) || null;
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "Submit a program")),
    may["web-submit"] ? null : h("p", { class: "problem" }, "This JobManager takes no programs (web.submit.enable is false)."),
    card("Upload", uploadForm(context)),
    card("Programs", programTable(files, context)),
    chosen === null ? null : card(`Run ${chosen.name}`, runForm(chosen, context)),
    chosen !== null && context.state.plan ? card("Its plan", planPicture(context.state.plan)) : null,
  );
}

function uploadForm(context) {
  const send = async (event) => {
    event.preventDefault();
    const form = event.target;
    const file = form.elements.file.files[0];
    const submit = form.querySelector("button");
    submit.disabled = true;
    try {
      context.state.program = await upload(file);
      form.reset();
      notify(`${file.name} was uploaded.`);
    } catch (error) {
      notify(error.message, "bad");
    }
    submit.disabled = false;
    context.refresh();
  };
  return h(
    "form",
    { class: "row", on: { submit: send } },
    h("input", { type: "file", name: "file", accept: ".py,.zip,.whl", required: true, "aria-label": "A program: .py, .zip or .whl" }),
    h("button", { class: "button primary", type: "submit" }, "Upload"),
    h("span", { class: "quiet" }, "A .py file, a .zip or a .whl. It runs as the user of the JobManager."),
  );
}

function programTable(files, context) {
  const choose = (file) => {
    context.state.program = file.id;
    context.state.plan = null;
    context.update();
  };
  return table({
    caption: "Programs",
    rows: files,
    key: (file) => file.id,
    rowClass: (file) => (file.id === context.state.program ? "chosen" : null),
    empty: "No program has been uploaded.",
    columns: [
      { title: "Program", wide: true, cell: (file) => h("button", { class: "as-link", type: "button", on: { click: () => choose(file) } }, file.name) },
      { title: "Uploaded", cell: (file) => moment(file.uploaded) },
      { title: "Module", wide: true, cell: (file) => file.entry.map((entry) => entry.name).join(", ") },
      {
        title: "What to do",
        cell: (file) =>
          h(
            "div",
            { class: "row" },
            file.id === context.state.program ? null : button("Choose", () => choose(file), { class: "button small" }),
            button("Delete", () => deleteProgram(file, context), { class: "button small danger-text" }),
          ),
      },
    ],
  });
}

function deleteProgram(file, context) {
  confirm({
    title: "Delete the program",
    text: `The uploaded file ${file.name} is deleted. Jobs that run it go on.`,
    button: "Delete it",
    danger: true,
    act: async () => {
      await remove(`/jars/${part(file.id)}`);
      context.state.program = null;
      context.refresh();
      return `${file.name} was deleted.`;
    },
  });
}

/** Split arguments as a shell does: quotes keep spaces together. */
export function splitArguments(text) {
  const found = [];
  const pattern = /"((?:[^"\\]|\\.)*)"|'([^']*)'|((?:[^\s"'\\]|\\.)+)/gy;
  let current = null;
  let at = 0;
  while (at < text.length) {
    if (/\s/.test(text[at])) {
      if (current !== null) found.push(current);
      current = null;
      at += 1;
      continue;
    }
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) throw new Error("The arguments have a quote without its end.");
    const [, double, single, bare] = match;
    current = (current || "") + (single !== undefined ? single : (double !== undefined ? double : bare).replace(/\\(.)/g, "$1"));
    at = pattern.lastIndex;
  }
  if (current !== null) found.push(current);
  return found;
}

function runForm(file, context) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const body = (form) => ({
    entryClass: form.elements.module.value || null,
    programArgsList: splitArguments(form.elements.arguments.value),
    parallelism: form.elements.parallelism.value ? Number(form.elements.parallelism.value) : null,
    savepointPath: form.elements.savepoint.value || null,
    allowNonRestoredState: form.elements.unclaimed.checked || null,
  });
  const act = async (event, order) => {
    const form = event.target.closest("form");
    const shown = form.querySelector(".problem");
    shown.hidden = true;
    const submit = event.submitter || event.target;
    submit.disabled = true;
    try {
      await order(body(form));
    } catch (error) {
      shown.textContent = error.message;
      shown.hidden = false;
    }
    submit.disabled = false;
  };
  const run = (event) => {
    event.preventDefault();
    return act(event, async (settings) => {
      const { jobid } = await post(`/jars/${part(file.id)}/run`, settings);
      notify("The job was submitted.");
      location.hash = jobAddress(jobid);
    });
  };
  const plan = (event) =>
    act(event, async (settings) => {
      context.state.plan = (await post(`/jars/${part(file.id)}/plan`, settings)).plan;
      context.update();
    });
  return h(
    "form",
    { class: "form", key: file.id, on: { submit: run } },
    field("Arguments", "arguments", { placeholder: "--input orders.csv" }, "Separated by spaces; quotes keep a text with spaces together."),
    h(
      "div",
      { class: "fields" },
      field("Parallelism", "parallelism", { type: "number", min: 1, placeholder: "as configured" }),
      field("Module to run", "module", { placeholder: "the program itself" }, "A module of the upload, as with python -m."),
      field("Savepoint to start from", "savepoint", { placeholder: "none" }, "The path of a savepoint or of a kept checkpoint."),
      checkbox("Allow state in the savepoint that no operator of the program takes", "unclaimed"),
    ),
    problem,
    h(
      "div",
      { class: "row" },
      h("button", { class: "button primary", type: "submit" }, "Run it"),
      button("Show its plan", plan),
      h("span", { class: "quiet" }, "Running it starts a job on this cluster. The plan runs the program up to its first job, without running that."),
    ),
  );
}

/** The plan as Flink writes it, drawn like the graph of a job, and the same as a table. */
function planPicture(plan) {
  const names = new Map(plan.nodes.map((node) => [node.id, operatorsOf(node).join(" → ")]));
  const vertices = plan.nodes.map((node) => ({
    id: node.id,
    name: names.get(node.id),
    parallelism: node.parallelism,
    status: "not started",
    operators: operatorsOf(node).map((name) => ({ name })),
  }));
  const edges = plan.nodes.flatMap((node) =>
    (node.inputs || []).map((input) => ({ source: input.id, target: node.id, "ship-strategy": input.ship_strategy, "records-per-second": null })),
  );
  const inputs = (vertex) =>
    edges.filter((edge) => edge.target === vertex.id).map((edge) => `${names.get(edge.source)} (${strategy(edge).text})`).join(", ");
  return pictured(graph({ vertices, edges, chosen: null }), "The plan", () =>
    table({
      caption: "Vertices of the plan",
      rows: vertices,
      key: (vertex) => vertex.id,
      columns: [
        { title: "Vertex", wide: true, cell: (vertex) => vertex.name },
        { title: "Subtasks", number: true, cell: (vertex) => vertex.parallelism },
        { title: "Inputs", wide: true, cell: inputs },
      ],
    }),
  );
}

/** Descriptions of a plan are escaped for HTML, with one operator per line: turn them back into texts. */
export function operatorsOf(node) {
  const entities = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };
  return String(node.description || node.operator || node.id)
    .split("<br/>")
    .map((line) => line.replace(/^\s*\+-\s*/, "").replace(/&(lt|gt|quot|#x27|amp);/g, (entity) => entities[entity]).trim())
    .filter((line) => line !== "");
}
