import { StoreError } from "gantry";

/** Temporary until the shared one is there. */
export class DriverLife<T extends { close(): Promise<void> }> {
  readonly #name: string;
  readonly #open: () => Promise<T>;
  readonly #wrap: (error: unknown) => Error;
  readonly #underWay = new Set<Promise<unknown>>();
  #opening: Promise<T> | undefined;
  #closing: Promise<void> | undefined;
  #opened: T | undefined;

  constructor(name: string, open: () => Promise<T>, wrap: (error: unknown) => Error) {
    this.#name = name;
    this.#open = open;
    this.#wrap = wrap;
  }

  async open(): Promise<void> {
    await this.#closing;
    this.#opening ??= this.#start();
    await this.#opening;
  }

  async close(): Promise<void> {
    this.#closing ??= this.#stop().finally(() => (this.#closing = undefined));
    await this.#closing;
  }

  async do<R>(work: (opened: T) => Promise<R>): Promise<R> {
    const opened = this.#opened;
    if (!opened) throw new StoreError(`session store ${this.#name}: not open`);
    const result = work(opened);
    this.#underWay.add(result);
    try {
      return await result;
    } catch (error) {
      throw this.#wrap(error);
    } finally {
      this.#underWay.delete(result);
    }
  }

  async #start(): Promise<T> {
    try {
      this.#opened = await this.#open();
      return this.#opened;
    } catch (error) {
      this.#opening = undefined;
      throw this.#wrap(error);
    }
  }

  async #stop(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const opened = this.#opened;
    this.#opened = undefined;
    this.#opening = undefined;
    if (!opened) return;
    await Promise.allSettled(this.#underWay);
    await opened.close();
  }
}
