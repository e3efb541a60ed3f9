// What the controller sends: internal/view/live/rows.go and stream.go write it.

/** [namespace, kind, name, pods, cpu in millicores, memory in bytes] */
export type Group = [string, string, string, number, number, number];

/** name, pool, type, zone, capacity type, state, reason, $/h, whether that is known, cpu used, cpu, memory used, memory, pods, created, whether it has a NodeClaim */
export type Row = [string, string, string, string, string, string, string, number, boolean, number, number, number, number, number, number, boolean];

export interface Summary {
  healthy: boolean;
  price: string;
  nodes: number;
  pending: number;
  refused: number;
}

export interface Change {
  rev: string;
  from: string;
  reset?: boolean;
  nodes?: [Row, Group[]][];
  gone?: string[];
  summary: Summary;
}

export interface MapAnswer {
  rev: string;
  nodes?: Row[];
  groups?: [string, Group[]][];
}

const base = "/debug/view/";

export async function askMap(groups: boolean): Promise<MapAnswer> {
  const answer = await fetch(base + "map" + (groups ? "?groups=true" : ""));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

export const streamAddress = (since: string): string => base + "stream?since=" + encodeURIComponent(since);
