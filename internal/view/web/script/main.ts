// What pages do beyond HTML: times in the reader's zone, the map, and what changes as it changes. Every
// page is whole without it.

import { type Change, prefix } from "./data";
import { Stream } from "./live";
import { FleetMap } from "./map";
import { localTimes } from "./text";

const readAgainEvery = 2000; // milliseconds at most; the page with the map: five times that

let due = 0;

/** readAgain puts in the page as it is now, and leaves what somebody is busy with. */
async function readAgain(main: HTMLElement): Promise<void> {
  const busy = document.activeElement;
  if (busy && main.contains(busy) && busy.matches("input, select, textarea")) return;
  if (!main.querySelector("[data-part]")) return; // it was asked for once
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of main.querySelectorAll<HTMLElement>("[data-part]")) {
    const now = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!now) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
    part.replaceChildren(...now.childNodes);
    localTimes(part);
    if (focused) for (const a of part.querySelectorAll("a")) if (a.getAttribute("href") === focused) a.focus({ preventScroll: true });
  }
  const at = document.getElementById("at");
  const then = page.getElementById("at");
  if (at && then) {
    at.replaceChildren(...then.childNodes);
    localTimes(at);
  }
}

function summarize(c: Change): void {
  const s = c.summary;
  const put = (id: string, text: string) => {
    const at = document.getElementById(id);
    if (at && at.textContent !== text) at.textContent = text;
  };
  put("sum-health", s.healthy ? "● healthy" : "▲ needs a look");
  document.getElementById("sum-health")?.classList.toggle("bad", !s.healthy);
  put("sum-price", s.price);
  put("sum-nodes", s.nodes + (s.nodes === 1 ? " node" : " nodes"));
  put("sum-pending", s.pending + " pending");
}

async function start(): Promise<void> {
  localTimes(document);
  const main = document.getElementById("main");
  const tools = document.getElementById("tools");
  if (!main || !tools) return;
  const root = document.getElementById("map");
  const table = document.getElementById("table");
  let map: FleetMap | undefined;
  if (root && table) {
    map = new FleetMap(root, table);
    await map.load().catch((e) => map?.fail(e));
  }
  if (prefix !== undefined) return; // a past moment stays as it is
  const state = document.createElement("span");
  const pause = document.createElement("button");
  pause.type = "button";
  pause.textContent = "Pause";
  let known = map?.rev ?? "";
  const stream = new Stream(
    known,
    (c) => {
      summarize(c);
      if (!known) {
        known = c.rev; // the page was made a moment ago
        return;
      }
      map?.apply(c);
      const wait = map ? 5 * readAgainEvery : readAgainEvery;
      due ||= window.setTimeout(() => {
        due = 0;
        void readAgain(main);
      }, wait);
    },
    (text) => (state.textContent = text),
  );
  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(paused));
    stream.pause(paused);
  });
  pause.setAttribute("aria-pressed", "false");
  tools.replaceChildren(state, " ", pause);
}

void start();
