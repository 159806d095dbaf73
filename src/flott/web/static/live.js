/**
 * The one poll of a page. It asks again some time after the last answer came, so that a slow JobManager gets fewer
 * requests, not more. A page in a hidden tab does not ask. After a failure it asks more and more rarely, up to every
 * ten seconds, until the JobManager is back.
 */

const LONGEST_PAUSE = 10000;

/** The JobManager adds a point to its series so often, in ms. */
export const SERIES_STEP = 5000;

export class Poll {
  /**
   * `load` returns a promise; `done` and `failed` get its outcome; `pause` returns the time between two, in ms, and 0 if
   * one answer is enough.
   */
  constructor(load, done, failed, pause) {
    Object.assign(this, { load, done, failed, pause });
    this.failures = 0;
    this.timer = null;
    this.request = null;
    this.ended = false;
    this.answered = false;
    this.whenShown = () => !document.hidden && this.isDue() && this.ask();
    document.addEventListener("visibilitychange", this.whenShown);
  }

  /** Ask now. A request under way is abandoned, because something has changed since. */
  async ask() {
    if (this.ended) return;
    clearTimeout(this.timer);
    if (this.request) this.request.abort();
    const request = new AbortController();
    this.request = request;
    try {
      const answer = await this.load(request.signal);
      if (this.request !== request || this.ended) return;
      this.failures = 0;
      this.answered = true;
      this.done(answer);
    } catch (error) {
      if (this.request !== request || this.ended) return;
      this.failures += 1;
      this.failed(error);
    }
    this.request = null;
    if (!document.hidden && !this.ended && this.isDue()) this.timer = setTimeout(() => this.ask(), this.nextPause());
  }

  /** Whether another answer is needed. */
  isDue() {
    return !this.answered || this.failures > 0 || this.pause() > 0;
  }

  nextPause() {
    return this.failures === 0 ? this.pause() : Math.min(LONGEST_PAUSE, 1000 * 1.5 ** this.failures);
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    if (this.request) this.request.abort();
    document.removeEventListener("visibilitychange", this.whenShown);
  }
}

/**
 * Ask for a path only if the last answer is older than `ms`: for what changes rarely, beside what is asked every time.
 * The answers are kept in the state of the page.
 */
export async function rarely(state, path, ms, ask) {
  const kept = (state.kept ||= new Map());
  const known = kept.get(path);
  if (known !== undefined && performance.now() - known.at < ms) return known.answer;
  const answer = await ask(path);
  kept.set(path, { at: performance.now(), answer });
  return answer;
}
