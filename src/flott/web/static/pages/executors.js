/**
 * Executors: memory, slots and tasks of each.
 */

import { h } from "../elements.js";
import { age, bytes, count } from "../format.js";
import { card, link, moment, table } from "../parts.js";
import { shareBar } from "../pictures/share_bar.js";
import { get, now, part } from "../rest.js";

export default { title: () => "Executors", load: (context, signal) => get("/taskmanagers", { signal }), view };

function view({ taskmanagers }) {
  // All executors of an application are of one kind: only of the driver's own JVM does Spark report the present size.
  const isPeak = taskmanagers.some((one) => one.memoryIsPeak);
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
          { title: "Slots in use", number: true, hint: "A slot is in use while Spark runs a task in it. Subtasks of jobs in epochs take turns.", cell: (one) => `${count(one.slotsNumber - one.freeSlots)} of ${count(one.slotsNumber)}` },
          { title: "Cores", number: true, cell: (one) => count(one.hardware.cpuCores) },
          { title: isPeak ? "Memory, most so far" : "Memory in use", hint: isPeak ? "The largest heap so far. Spark does not report how large it is now." : null, cell: memory },
          { title: "Managed memory", number: true, cell: (one) => bytes(one.hardware.managedMemory) },
          { title: "Started", cell: (one) => moment(one.startTime) },
          { title: "Last heartbeat", number: true, cell: (one) => `${age(now() - one.timeSinceLastHeartbeat)} ago` },
        ],
      }),
    ),
  );
}

function memory({ hardware, memoryIsPeak }) {
  return shareBar(hardware.physicalMemory - hardware.freeMemory, hardware.physicalMemory, bytes, !memoryIsPeak);
}
