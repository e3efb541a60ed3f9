// One connection for all tabs of a browser: the tab that holds the lock reads the stream and hands its
// messages to the others. A tab that nobody sees does not ask for the lock.

import { type Change, streamAddress } from "./data";

const retryAfter = 5000; // milliseconds; where the browser does not come back by itself

export class Stream {
  private readonly channel = new BroadcastChannel("dovetail");
  private release: (() => void) | undefined;
  private asking: AbortController | undefined;
  private paused = false;

  /** since is the revision that the page shows; change is called for what comes after, state with what the connection does. */
  constructor(private since: string, private readonly change: (c: Change) => void, private readonly state: (text: string) => void) {
    this.channel.onmessage = (e) => this.take(e.data);
    document.addEventListener("visibilitychange", () => this.follow());
    this.follow();
  }

  pause(paused: boolean): void {
    this.paused = paused;
    this.follow();
  }

  private follow(): void {
    const wanted = !document.hidden && !this.paused;
    if (!wanted) {
      this.asking?.abort();
      this.asking = undefined;
      this.release?.();
      this.state(this.paused ? "paused" : "");
      return;
    }
    if (this.asking) return;
    const asking = (this.asking = new AbortController());
    this.state("live");
    navigator.locks
      .request("dovetail-stream", { signal: asking.signal }, () => new Promise<void>((done) => this.read(done)))
      .catch((e) => {
        if (!asking.signal.aborted) throw e;
      });
  }

  private read(done: () => void): void {
    let source: EventSource;
    let timer = 0;
    const open = () => {
      source = new EventSource(streamAddress(this.since));
      source.onopen = () => this.state("live");
      source.onerror = () => {
        this.state("reconnecting…");
        if (source.readyState === EventSource.CLOSED) timer = window.setTimeout(open, retryAfter);
      };
      source.addEventListener("change", (e) => {
        const c: Change = JSON.parse(e.data);
        this.channel.postMessage(c);
        this.take(c);
      });
    };
    this.release = () => {
      this.release = undefined;
      window.clearTimeout(timer);
      source.close();
      done();
    };
    open();
  }

  private take(c: Change): void {
    if (this.paused || c.rev === this.since) return;
    if (c.from !== this.since) c.reset = true;
    this.since = c.rev;
    this.change(c);
  }
}
