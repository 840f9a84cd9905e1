import "reflect-metadata/lite";

/** Tsyringe's decorators from gantry's own copy. Two copies of tsyringe do not share their metadata. */
export { inject, injectable } from "tsyringe";
