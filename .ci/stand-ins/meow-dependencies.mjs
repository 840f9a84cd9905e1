// The packages that meow bundles in one file, except the packages that read a package.json, which would add 20 ms of CPU
// to a start. gantry passes `pkg` and no help text, so meow calls none of the four stubs below.
export { default as y } from "yargs-parser";
export { default as c } from "camelcase-keys";
export { default as d } from "decamelize-keys";
export { default as b } from "minimist-options";
export { default as e } from "decamelize";

function throwOmitted() {
  throw new Error("the build omits the packages by which meow reads package.json and help texts");
}
export { throwOmitted as a, throwOmitted as n, throwOmitted as r, throwOmitted as t };
