import "reflect-metadata/lite";

/** The decorators of tsyringe, from our copy of it: two copies do not see each other's metadata. */
export { inject, injectable } from "tsyringe";
