import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Console } from "./console.js";

/** Where components find the store. */
export const ConsoleContext = createContext<Console | undefined>(undefined);

/** The store of this page. */
export function useConsole(): Console {
  const store = useContext(ConsoleContext);
  if (!store) throw new Error("there is no console around this component");
  return store;
}
