// The packages that meow bundles in one file, without those that read and normalise a package.json: these would add 20
// ms of CPU to a start. gantry passes `pkg` and no help text, so meow calls none of the four stubs below.
export { default as y } from "yargs-parser";
export { default as c } from "camelcase-keys";
export { default as d } from "decamelize-keys";
export { default as b } from "minimist-options";
export { default as e } from "decamelize";

function leftOut() {
  throw new Error("the build omits the packages by which meow reads package.json and help texts");
}
export { leftOut as a, leftOut as n, leftOut as r, leftOut as t };
