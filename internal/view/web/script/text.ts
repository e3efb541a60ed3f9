// How amounts and times read.

export const money = (v: number): string => "$" + v.toFixed(4) + "/h";

export const cores = (milli: number): string => String(Math.round(milli / 100) / 10);

export function bytes(v: number): string {
  const units = ["", "Ki", "Mi", "Gi", "Ti"];
  let i = 0;
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return (v >= 100 ? Math.round(v) : Math.round(v * 10) / 10) + units[i];
}

export const percent = (part: number, whole: number): string => (whole > 0 ? Math.round((100 * part) / whole) : 0) + " %";

export function age(seconds: number): string {
  if (seconds < 120) return Math.max(0, Math.round(seconds)) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " d";
}

/** localTimes shows the times below an element in the reader's zone, with UTC on hover. */
export function localTimes(root: ParentNode): void {
  const form = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  for (const t of root.querySelectorAll<HTMLTimeElement>("time[datetime]")) {
    if (t.title) continue;
    t.title = t.textContent ?? "";
    t.textContent = form.format(new Date(t.dateTime));
  }
}
