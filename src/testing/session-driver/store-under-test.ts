import type { SessionDriver } from "../../ports/session-driver.js";
import { withTimeout, type CheckRules } from "../check.js";
import type { HeldStore, SessionDriverFixture } from "./fixture.js";
import { withTimeouts } from "./with-timeouts.js";

/** Rules of the `SessionDriver` contract, each with a store of its own. */
export type StoreRules = CheckRules<[store: StoreUnderTest]>;

/** The store of one check and its drivers. Calls that hang fail with the check's name. */
export class StoreUnderTest {
  /** The main driver of the check. */
  driver: SessionDriver;
  readonly #fixture: SessionDriverFixture;
  readonly #checkName: string;
  /** Open drivers: the fixture's driver by its wrapper with timeouts. */
  readonly #drivers = new Map<SessionDriver, SessionDriver>();
  #secondDriver: SessionDriver | undefined;

  private constructor(fixture: SessionDriverFixture, checkName: string, driver: SessionDriver) {
    this.#fixture = fixture;
    this.#checkName = checkName;
    this.driver = this.#wrap(driver);
  }

  static async create(fixture: SessionDriverFixture, checkName: string): Promise<StoreUnderTest> {
    const driver = await withTimeout(
      fixture.create(),
      `${checkName}: the fixture's create() hangs`,
      getTimeoutMs(fixture),
    );
    return new StoreUnderTest(fixture, checkName, driver);
  }

  /** Whether the fixture can hold changes. */
  get canHold(): boolean {
    return this.#fixture.hold !== undefined;
  }

  /** Opens another driver on the store. */
  async openSecond(): Promise<SessionDriver> {
    return this.#wrap(await this.#awaitFixture("second", this.#fixture.second(this.#unwrap(this.driver))));
  }

  /** Returns a second driver. Every call returns the same driver. */
  async getSecond(): Promise<SessionDriver> {
    return (this.#secondDriver ??= await this.openSecond());
  }

  /** Calls the fixture's `hold`. Resolves with undefined without such a function, and after the last part. */
  async hold(part: number): Promise<HeldStore | undefined> {
    return this.#fixture.hold && this.#awaitFixture("hold", this.#fixture.hold(part));
  }

  /** Closes the main driver and opens a new one. */
  async reopen(): Promise<SessionDriver> {
    const closedDriver = this.#unwrap(this.driver);
    await this.driver.close();
    this.#drivers.delete(this.driver);
    this.driver = this.#wrap(await this.#awaitFixture("reopen", this.#fixture.reopen(closedDriver)));
    return this.driver;
  }

  /** Closes all drivers and cleans up, even after failures. Rejects with the first failure. */
  async end(): Promise<void> {
    const closeResults = await Promise.allSettled([...this.#drivers.keys()].map((driver) => driver.close()));
    const cleanResults = await Promise.allSettled([this.#awaitFixture("clean", this.#fixture.clean())]);
    for (const result of [...closeResults, ...cleanResults]) if (result.status === "rejected") throw result.reason;
  }

  #wrap(fixtureDriver: SessionDriver): SessionDriver {
    const driver = withTimeouts(fixtureDriver, this.#checkName, getTimeoutMs(this.#fixture));
    this.#drivers.set(driver, fixtureDriver);
    return driver;
  }

  #unwrap(driver: SessionDriver): SessionDriver {
    return this.#drivers.get(driver) ?? driver;
  }

  async #awaitFixture<T>(functionName: string, promise: Promise<T>): Promise<T> {
    return withTimeout(
      promise,
      `${this.#checkName}: the fixture's ${functionName}() hangs`,
      getTimeoutMs(this.#fixture),
    );
  }
}

function getTimeoutMs({ timeoutMs = 30_000 }: SessionDriverFixture): number {
  return timeoutMs;
}
