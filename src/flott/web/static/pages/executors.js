/**
 * Executors: memory, slots and tasks of each.
 */

import { h } from "../elements.js";
import { age, bytes, count } from "../format.js";
import { card, link, table } from "../parts.js";
import { shareBar } from "../pictures/share_bar.js";
import { get, now, part } from "../rest.js";

export default { title: () => "Executors", load: (context, signal) => get("/taskmanagers", { signal }), view };

function view({ taskmanagers }) {
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "title" }, h("h1", null, "Executors")),
    card(
      null,
      table({
        caption: "Executors",
        rows: taskmanagers,
        key: (one) => one.id,
        empty: "Spark has no executor at the moment. It starts one when a job needs it.",
        columns: [
          { title: "Executor", wide: true, cell: (one) => link(one.id, `#/executors/${part(one.id)}`) },
          { title: "Slots in use", number: true, cell: (one) => `${count(one.slotsNumber - one.freeSlots)} of ${count(one.slotsNumber)}` },
          { title: "Tasks", number: true, cell: (one) => count(one.assignedTasks) },
          { title: "Cores", number: true, cell: (one) => count(one.hardware.cpuCores) },
          { title: "Memory in use", cell: (one) => shareBar(one.hardware.physicalMemory - one.hardware.freeMemory, one.hardware.physicalMemory, bytes) },
          { title: "Managed memory", number: true, cell: (one) => bytes(one.hardware.managedMemory) },
          { title: "Last heartbeat", number: true, cell: (one) => `${age(now() - one.timeSinceLastHeartbeat)} ago` },
        ],
      }),
    ),
  );
}
