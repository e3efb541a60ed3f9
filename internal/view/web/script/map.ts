// The fleet as a map: pools, in them nodes to scale, in them workloads. The table of the page has the same.

import { areas, held, mark, modes, type Scale } from "./colour";
import { askGroups, askMap, type Change, type Group, prefix, type Row } from "./data";
import { type Rect, squarify } from "./layout";
import { age, bytes, cores, money, percent } from "./text";

export interface Node extends Rect {
  name: string;
  pool: string;
  type: string;
  zone: string;
  capacity: string;
  state: string;
  reason: string;
  price: number;
  known: boolean;
  cpuUsed: number;
  cpu: number;
  memoryUsed: number;
  memory: number;
  pods: number;
  created: number;
  ours: boolean;
  used: number; // the share that is asked for, of cpu or memory: what is scarcer
  groups: Group[];
}

interface Block extends Rect {
  group: Group;
}

interface Pool extends Rect {
  name: string;
  nodes: Node[];
}

const label = 15; // pixels above the nodes of a pool, for its name
const blocksFrom = 900; // square pixels from which a node shows its workloads
const leastWeight = 1; // of a node that has nothing yet

function nodeOf(r: Row): Node {
  const [name, pool, type, zone, capacity, state, reason, price, known, cpuUsed, cpu, memoryUsed, memory, pods, created, ours] = r;
  const used = Math.min(1, Math.max(cpu > 0 ? cpuUsed / cpu : 0, memory > 0 ? memoryUsed / memory : 0));
  return { name, pool, type, zone, capacity, state, reason, price, known, cpuUsed, cpu, memoryUsed, memory, pods, created, ours, used, groups: [], x: 0, y: 0, w: 0, h: 0 };
}

const titleOf = (g: Group): string => (g[1] ? g[1] + " " : "") + g[0] + "/" + g[2];

const same = (a: Group | undefined, b: Group | undefined): boolean => !!a && !!b && a[0] === b[0] && a[1] === b[1] && a[2] === b[2];

export class FleetMap {
  rev = "";
  private readonly nodes = new Map<string, Node>();
  private pools: Pool[] = [];
  private mode: string;
  private area: string;
  private picked: Node | undefined;
  private pickedGroup: Group | undefined;
  private laidOut = false;
  private asked = false;
  private scale: Scale = { priceMost: 0, now: 0 };
  private readonly canvas = document.createElement("canvas");
  private readonly above = document.createElement("canvas");
  private readonly stage = document.createElement("div");
  private readonly says = document.createElement("p");
  private readonly tip = document.createElement("div");
  private readonly key = document.createElement("p");
  private readonly filter: URLSearchParams;

  constructor(private readonly root: HTMLElement, private readonly table: HTMLElement) {
    this.filter = new URLSearchParams(location.search);
    this.mode = this.filter.get("color") ?? "free";
    this.area = this.filter.get("area") ?? "cpu";
    if (!modes[this.mode]) this.mode = "free";
    if (!areas[this.area]) this.area = "cpu";
    this.build();
  }

  /** load asks for all nodes, draws them, then asks for their workloads. */
  async load(): Promise<void> {
    const answer = await askMap();
    const before = new Map(this.nodes);
    this.nodes.clear();
    for (const r of answer.nodes) {
      const n = nodeOf(r);
      n.groups = before.get(n.name)?.groups ?? [];
      this.put(n);
    }
    this.rev = answer.rev;
    this.arrange();
    performance.mark("map-drawn");
    for (const [name, g] of await askGroups()) {
      const n = this.nodes.get(name);
      if (n) n.groups = g;
    }
    this.draw();
    this.root.dataset.drawn = String(this.nodes.size);
  }

  /** apply takes in what has changed. */
  apply(c: Change): void {
    if (c.reset) {
      void this.load().catch((e) => this.fail(e));
      return;
    }
    for (const name of c.gone ?? []) {
      this.nodes.delete(name);
      this.laidOut = false;
    }
    for (const [row, groups] of c.nodes ?? []) {
      const n = nodeOf(row);
      n.groups = groups;
      this.put(n);
    }
    this.rev = c.rev;
    this.root.dataset.drawn = String(this.nodes.size);
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.arrange();
    });
  }

  fail(e: unknown): void {
    this.says.textContent = "The map could not be read: " + (e instanceof Error ? e.message : String(e)) + " The table below is complete.";
  }

  /** put keeps a node where it is, as long as its size is what it was. */
  private put(n: Node): void {
    if (this.filter.has("pool") && n.pool !== this.filter.get("pool")) return;
    if (this.filter.get("state") && n.state !== this.filter.get("state")) {
      if (this.nodes.delete(n.name)) this.laidOut = false;
      return;
    }
    const old = this.nodes.get(n.name);
    const of = areas[this.area].of;
    if (old && old.pool === n.pool && of(old) === of(n)) {
      Object.assign(old, { ...n, x: old.x, y: old.y, w: old.w, h: old.h });
      return;
    }
    this.nodes.set(n.name, n);
    this.laidOut = false;
  }

  private build(): void {
    const tools = document.createElement("p");
    tools.className = "tools";
    tools.append(this.choice("Colour", modes, this.mode, (v) => this.choose("color", (this.mode = v))), this.choice("Size", areas, this.area, (v) => this.choose("area", (this.area = v))));
    const toTable = document.createElement("button");
    toTable.type = "button";
    toTable.textContent = "Table (t)";
    toTable.addEventListener("click", () => this.toTable());
    tools.append(toTable);
    this.stage.className = "stage";
    this.stage.tabIndex = 0;
    this.stage.setAttribute("role", "application");
    this.stage.setAttribute("aria-label", "Map of the nodes. Arrows move from node to node, Enter opens one, t leads to the table.");
    this.says.id = "map-says";
    this.says.setAttribute("aria-live", "polite");
    this.says.textContent = "Arrows move from node to node, Enter opens one, t leads to the table.";
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.key.className = "key";
    this.stage.append(this.canvas, this.above, this.tip);
    this.root.append(tools, this.stage, this.key, this.says);
    this.stage.addEventListener("keydown", (e) => this.press(e));
    this.stage.addEventListener("mousemove", (e) => this.hover(e));
    this.stage.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
      this.pickedGroup = undefined;
      this.drawAbove();
    });
    this.stage.addEventListener("click", () => this.open());
    this.stage.addEventListener("focus", () => this.picked || this.pick(this.pools[0]?.nodes[0]));
    document.addEventListener("keydown", (e) => {
      const at = e.target as HTMLElement;
      if (e.key !== "t" || e.ctrlKey || e.metaKey || e.altKey || at.closest("input, select, textarea")) return;
      e.preventDefault();
      if (this.table.contains(at) || at === this.table) this.stage.focus();
      else this.toTable();
    });
    new ResizeObserver(() => {
      this.laidOut = false;
      this.arrange();
    }).observe(this.stage);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", () => this.draw());
  }

  private choice(title: string, of: Record<string, { title: string }>, now: string, chosen: (v: string) => void): HTMLElement {
    const about = document.createElement("label");
    const select = document.createElement("select");
    for (const [value, o] of Object.entries(of)) select.append(new Option(o.title, value, value === now, value === now));
    select.addEventListener("change", () => chosen(select.value));
    about.append(title + " ", select);
    return about;
  }

  private choose(name: string, value: string): void {
    const at = new URL(location.href);
    at.searchParams.set(name, value);
    history.replaceState(null, "", at);
    this.laidOut = false;
    this.arrange();
  }

  private toTable(): void {
    this.table.tabIndex = -1;
    this.table.focus();
    this.table.scrollIntoView();
  }

  /** arrange lays the nodes out if that is needed, and draws them. */
  private arrange(): void {
    if (this.stage.clientWidth === 0) return;
    if (!this.laidOut) this.layOut();
    this.draw();
  }

  private layOut(): void {
    const of = (n: Node) => Math.max(leastWeight, areas[this.area].of(n));
    const by = new Map<string, Pool & { weight: number }>();
    for (const n of this.nodes.values()) {
      let p = by.get(n.pool);
      if (!p) by.set(n.pool, (p = { name: n.pool, nodes: [], weight: 0, x: 0, y: 0, w: 0, h: 0 }));
      p.nodes.push(n);
      p.weight += of(n);
    }
    const pools = [...by.values()].sort((a, b) => b.weight - a.weight || (a.name < b.name ? -1 : 1));
    squarify(pools.map((p) => p.weight), { x: 0, y: 0, w: this.stage.clientWidth, h: this.stage.clientHeight }).forEach((r, i) => Object.assign(pools[i], r));
    for (const p of pools) {
      p.nodes.sort((a, b) => of(b) - of(a) || (a.name < b.name ? -1 : 1));
      const inner = { x: p.x + 2, y: p.y + label, w: Math.max(0, p.w - 4), h: Math.max(0, p.h - label - 2) };
      squarify(p.nodes.map(of), inner).forEach((r, i) => Object.assign(p.nodes[i], r));
    }
    this.pools = pools;
    this.laidOut = true;
  }

  private context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: w, clientHeight: h } = this.stage;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    const c = canvas.getContext("2d")!;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, w, h);
    return c;
  }

  private draw(): void {
    if (this.stage.clientWidth === 0) return;
    const c = this.context(this.canvas);
    const style = getComputedStyle(this.root);
    const paint = (name: string) => style.getPropertyValue(name).trim();
    const ink = paint("--text");
    const ramp = Array.from({ length: 8 }, (_, i) => paint("--ramp" + i));
    const mode = modes[this.mode];
    this.scale = { now: Date.now() / 1000, priceMost: 0 };
    for (const n of this.nodes.values()) if (n.known && n.cpu > 0) this.scale.priceMost = Math.max(this.scale.priceMost, (n.price * 1000) / n.cpu);
    const hatch = this.hatch(ink);
    const paints = new Map<string, string>();
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "top";
    for (const p of this.pools) {
      c.fillStyle = ink;
      if (p.w > 40) c.fillText(fitted(c, p.name || "(no pool)", p.w - 6), p.x + 3, p.y + 2);
      for (const n of p.nodes) {
        const shade = mode.shade(n, this.scale);
        let fill: string;
        if (typeof shade === "number") fill = ramp[Math.min(7, Math.max(0, Math.floor(shade * 8)))];
        else if (!(fill = paints.get(shade) ?? "")) paints.set(shade, (fill = paint(shade)));
        this.drawNode(c, n, fill, paint, hatch, ink);
      }
    }
    this.drawKey(mode, paint, ramp);
    this.drawAbove();
  }

  /** drawNode fills a node from below as far as it is used. */
  private drawNode(c: CanvasRenderingContext2D, n: Node, fill: string, paint: (name: string) => string, hatch: CanvasPattern | null, ink: string): void {
    const gap = n.w > 6 && n.h > 6 ? 1 : 0.25;
    const x = n.x + gap / 2;
    const y = n.y + gap / 2;
    const w = Math.max(0.5, n.w - gap);
    const h = Math.max(0.5, n.h - gap);
    c.globalAlpha = 0.35;
    c.fillStyle = fill;
    c.fillRect(x, y, w, h);
    c.globalAlpha = 1;
    c.fillRect(x, y + h * (1 - n.used), w, h * n.used);
    if (n.w * n.h >= blocksFrom) {
      c.strokeStyle = paint("--back");
      c.lineWidth = 1;
      for (const b of blocksOf(n)) if (b.w >= 2 && b.h >= 2) c.strokeRect(b.x + 0.5, b.y + 0.5, b.w - 1, b.h - 1);
    }
    if (hatch && held.has(n.reason)) {
      c.fillStyle = hatch;
      c.fillRect(x, y, w, h);
    }
    const letter = mark(n);
    if (n.w > 60 && n.h > 26) this.write(c, fitted(c, n.name, n.w - (letter ? 24 : 12)), n.x + 4, n.y + 4, ink, paint("--back"));
    if (letter && n.w > 14 && n.h > 14) this.write(c, letter, n.x + n.w - 11, n.y + 4, ink, paint("--back"));
  }

  private write(c: CanvasRenderingContext2D, text: string, x: number, y: number, ink: string, back: string): void {
    c.globalAlpha = 0.85;
    c.fillStyle = back;
    c.fillRect(x - 2, y - 1, c.measureText(text).width + 4, 13);
    c.globalAlpha = 1;
    c.fillStyle = ink;
    c.fillText(text, x, y);
  }

  private hatch(ink: string): CanvasPattern | null {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const c = tile.getContext("2d")!;
    c.strokeStyle = ink;
    c.globalAlpha = 0.6;
    c.beginPath();
    for (const d of [-6, 0, 6]) {
      c.moveTo(d, 6);
      c.lineTo(d + 6, 0);
    }
    c.stroke();
    return c.createPattern(tile, "repeat");
  }

  private drawKey(mode: (typeof modes)[string], paint: (name: string) => string, ramp: string[]): void {
    const parts: (globalThis.Node | string)[] = [];
    for (const [name, text] of mode.legend) {
      for (const colour of name === "ramp" ? ramp : [paint(name)]) {
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.backgroundColor = colour;
        parts.push(swatch);
      }
      parts.push(" " + text + "  ");
    }
    parts.push(" Filled from below: asked for. Hatched: may not go now. s: spot, r: reserved.");
    this.key.replaceChildren(...parts);
  }

  /** drawAbove shows the node that is picked, and the workload under the pointer wherever it runs. */
  private drawAbove(): void {
    const c = this.context(this.above);
    const ink = getComputedStyle(this.root).getPropertyValue("--text").trim();
    c.strokeStyle = ink;
    if (this.pickedGroup) {
      c.lineWidth = 2;
      for (const n of this.nodes.values()) {
        if (!n.groups.some((g) => same(g, this.pickedGroup))) continue;
        if (n.w * n.h < blocksFrom) c.strokeRect(n.x + 1, n.y + 1, Math.max(1, n.w - 2), Math.max(1, n.h - 2));
        else for (const b of blocksOf(n)) if (same(b.group, this.pickedGroup)) c.strokeRect(b.x + 1, b.y + 1, Math.max(1, b.w - 2), Math.max(1, b.h - 2));
      }
    }
    const n = this.picked && this.nodes.get(this.picked.name);
    if (n) {
      c.lineWidth = 3;
      c.strokeRect(n.x + 1.5, n.y + 1.5, Math.max(1, n.w - 3), Math.max(1, n.h - 3));
    }
  }

  private hover(e: MouseEvent): void {
    const box = this.stage.getBoundingClientRect();
    const x = e.clientX - box.left;
    const y = e.clientY - box.top;
    let found: Node | undefined;
    for (const n of this.nodes.values()) if (within(n, x, y)) found = n;
    this.pickedGroup = found && found.w * found.h >= blocksFrom ? blocksOf(found).find((b) => within(b, x, y))?.group : undefined;
    this.picked = found ?? this.picked;
    this.drawAbove();
    this.tip.hidden = !found;
    if (!found) return;
    const lines = [found.name, ...describe(found, this.scale.now)];
    if (this.pickedGroup) lines.push(titleOf(this.pickedGroup) + ": " + podsOf(this.pickedGroup));
    this.tip.replaceChildren(
      ...lines.map((text) => {
        const line = document.createElement("div");
        line.textContent = text;
        return line;
      }),
    );
    const left = x + 14 + this.tip.offsetWidth > box.width ? x - 14 - this.tip.offsetWidth : x + 14;
    this.tip.style.left = Math.max(0, left) + "px";
    this.tip.style.top = Math.max(0, Math.min(y + 14, box.height - this.tip.offsetHeight)) + "px";
  }

  private press(e: KeyboardEvent): void {
    const all = this.pools.flatMap((p) => p.nodes);
    const from = this.picked ?? all[0];
    const step: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (e.ctrlKey || e.metaKey || e.altKey || !from) return;
    if (e.key === "Enter") this.open();
    else if (e.key === "Home") this.pick(all[0]);
    else if (e.key === "End") this.pick(all[all.length - 1]);
    else if (step[e.key]) this.pick(neighbour(all, from, step[e.key]));
    else return;
    e.preventDefault();
  }

  private pick(n: Node | undefined): void {
    if (!n) return;
    this.picked = n;
    this.says.textContent = n.name + ": " + describe(n, this.scale.now).join("; ");
    this.drawAbove();
  }

  private open(): void {
    if (this.picked) location.href = (prefix ?? "") + "/node/" + encodeURIComponent(this.picked.name);
  }
}

const within = (r: Rect, x: number, y: number): boolean => x >= r.x && x < r.x + r.w && y >= r.y && y < r.y + r.h;

/** blocksOf returns the workloads of a node, in the part of it that is used. */
function blocksOf(n: Node): Block[] {
  const weight = (g: Group) => Math.max(n.cpu > 0 ? g[4] / n.cpu : 0, n.memory > 0 ? g[5] / n.memory : 0);
  const groups = n.groups.filter((g) => weight(g) > 0).sort((a, b) => weight(b) - weight(a));
  const rects = squarify(groups.map(weight), { x: n.x + 1, y: n.y + n.h * (1 - n.used), w: Math.max(0, n.w - 2), h: Math.max(0, n.h * n.used - 1) });
  return groups.map((group, i) => ({ group, ...rects[i] }));
}

/** neighbour returns the nearest node in a direction, or the node itself. */
function neighbour(all: Node[], from: Node, [dx, dy]: [number, number]): Node {
  let best = from;
  let least = Infinity;
  for (const n of all) {
    const x = n.x + n.w / 2 - (from.x + from.w / 2);
    const y = n.y + n.h / 2 - (from.y + from.h / 2);
    const ahead = x * dx + y * dy;
    const far = ahead + 3 * Math.abs(x * dy + y * dx);
    if (n !== from && ahead > 0.01 && far < least) {
      least = far;
      best = n;
    }
  }
  return best;
}

function fitted(c: CanvasRenderingContext2D, text: string, width: number): string {
  if (c.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 0 && c.measureText(text.slice(0, n) + "…").width > width) n--;
  return n > 0 ? text.slice(0, n) + "…" : "";
}

const podsOf = (g: Group): string => g[3] + (g[3] === 1 ? " pod, " : " pods, ") + cores(g[4]) + " cpu, " + bytes(g[5]);

function describe(n: Node, now: number): string[] {
  return [
    [n.type, n.capacity, n.zone].filter(Boolean).join(" ") + (n.ours ? ", " + (n.known ? money(n.price) : "price not known") : ""),
    "cpu " + percent(n.cpuUsed, n.cpu) + " of " + cores(n.cpu) + ", memory " + percent(n.memoryUsed, n.memory) + " of " + bytes(n.memory) + ", " + n.pods + (n.pods === 1 ? " pod" : " pods"),
    n.state + (n.reason ? " (" + n.reason + ")" : "") + ", " + age(now - n.created) + " old",
  ];
}
