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
  nodes: Row[];
}

interface GroupsAnswer {
  /** namespace, kind, name, cpu and memory of a pod */
  workloads: [string, string, string, number, number][];
  /** for each node its name, and for each of its workloads: its number, pods */
  nodes: [string, number[]][];
}

/** prefix begins the addresses of pages and views; of undefined there is none, and what is shown changes. */
export const prefix = document.getElementById("tools")?.dataset.base;
const base = (prefix ?? "") + "/debug/view/";

async function ask<T>(what: string): Promise<T> {
  const answer = await fetch(base + what);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

export const askMap = (): Promise<MapAnswer> => ask("map");

/** askGroups returns the pods of each node by workload. */
export async function askGroups(): Promise<[string, Group[]][]> {
  const answer = await ask<GroupsAnswer>("map?groups=true");
  return answer.nodes.map(([name, figures]) => {
    const groups: Group[] = [];
    for (let i = 0; i < figures.length; i += 2) {
      const [namespace, kind, title, cpu, memory] = answer.workloads[figures[i]];
      const pods = figures[i + 1];
      groups.push([namespace, kind, title, pods, cpu * pods, memory * pods]);
    }
    return [name, groups];
  });
}

export const streamAddress = (since: string): string => base + "stream?since=" + encodeURIComponent(since);
