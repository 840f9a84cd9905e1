// Loaded with `node --import` before gantry: moves the clock of the process by CLOCK_OFFSET_MS, like the clock of
// another host. File times and the monotonic clock stay.
const { CLOCK_OFFSET_MS = "0" } = process.env;
const SystemDate = Date;

globalThis.Date = class Date extends SystemDate {
  constructor(...args) {
    if (args.length === 0) super(Date.now());
    else super(...args);
  }

  static now() {
    return SystemDate.now() + Number(CLOCK_OFFSET_MS);
  }
};
