// Squarified treemaps: rectangles whose areas are as given, as close to squares as they can be.

export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** squarify divides a rectangle among values, which are above 0 and in falling order. */
export function squarify(values: number[], into: Rect): Rect[] {
  const rects: Rect[] = [];
  let total = 0;
  for (const v of values) total += v;
  let { x, y, w, h } = into;
  const scale = total > 0 ? (w * h) / total : 0;
  for (let from = 0; from < values.length; ) {
    const side = Math.min(w, h);
    let to = from;
    let sum = 0;
    let worst = Infinity;
    while (to < values.length) {
      const next = sum + values[to] * scale;
      const ratio = worstOf(values[from] * scale, values[to] * scale, next, side);
      if (to > from && ratio > worst) break;
      worst = ratio;
      sum = next;
      to++;
    }
    const thick = side > 0 ? sum / side : 0;
    let along = 0;
    for (let i = from; i < to; i++) {
      const long = thick > 0 ? (values[i] * scale) / thick : 0;
      rects.push(w >= h ? { x, y: y + along, w: thick, h: long } : { x: x + along, y, w: long, h: thick });
      along += long;
    }
    if (w >= h) {
      x += thick;
      w = Math.max(0, w - thick);
    } else {
      y += thick;
      h = Math.max(0, h - thick);
    }
    from = to;
  }
  return rects;
}

/** worstOf returns the largest ratio of sides in a row of a sum, whose first value is the largest and whose last the smallest. */
function worstOf(largest: number, smallest: number, sum: number, side: number): number {
  if (sum <= 0 || side <= 0) return Infinity;
  const square = side * side;
  return Math.max((square * largest) / (sum * sum), (sum * sum) / (square * smallest));
}
