// How nodes are coloured, and what the legend says. No meaning has a colour alone: see mark.

import type { Node } from "./map";

export interface Mode {
  title: string;
  /** what the ends of the ramp mean, or a name for each property */
  legend: [string, string][];
  /** from 0 to 1 on the ramp, or a custom property of the style sheet */
  shade(n: Node, scale: Scale): number | string;
}

/** Scale is what ramps are relative to. */
export interface Scale {
  priceMost: number; // $/h of a cpu
  now: number; // seconds
}

const day = 86400;

export const modes: Record<string, Mode> = {
  free: {
    title: "free room",
    legend: [["ramp", "all used … all free (of cpu or memory: what is scarcer)"]],
    shade: (n) => 1 - n.used,
  },
  price: {
    title: "price of a cpu",
    legend: [["ramp", "cheap … dear, in $ an hour for each cpu"]],
    shade: (n, s) => (n.known && n.cpu > 0 && s.priceMost > 0 ? (n.price * 1000) / n.cpu / s.priceMost : "--none"),
  },
  spot: {
    title: "capacity type",
    legend: [["--a", "s: spot"], ["--b", "on-demand"], ["--c", "r: reserved"], ["--none", "not ours"]],
    shade: (n) => ({ spot: "--a", "on-demand": "--b", reserved: "--c" })[n.capacity] ?? "--none",
  },
  age: {
    title: "age",
    legend: [["ramp", "new … 30 days and older"]],
    shade: (n, s) => Math.min(1, Math.log1p(Math.max(0, s.now - n.created) / 60) / Math.log1p((30 * day) / 60)),
  },
  verdict: {
    title: "state",
    legend: [["--a", "stays"], ["--d", "starting"], ["--b", "due, disrupted or terminating"], ["--e", "not ready or rebooting"], ["--none", "not ours"]],
    shade: (n) =>
      ({ stays: "--a", starting: "--d", due: "--b", disrupted: "--b", terminating: "--b", notReady: "--e", rebooting: "--e" })[n.state] ?? "--none",
  },
};

/** areas are what the size of a node may be. */
export const areas: Record<string, { title: string; of(n: Node): number }> = {
  cpu: { title: "cpu", of: (n) => n.cpu },
  memory: { title: "memory", of: (n) => n.memory },
  price: { title: "price", of: (n) => n.price },
};

/** held are the reasons for which a node may not go, whatever its use: these are hatched. */
export const held = new Set(["DisruptionBlocked", "BudgetExhausted", "PoolPaused", "NodeRepairBlocked"]);

/** mark returns the letter of a capacity type. */
export const mark = (n: Node): string => ({ spot: "s", reserved: "r" })[n.capacity] ?? "";
