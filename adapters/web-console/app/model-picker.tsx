import { useSignal } from "@preact/signals";
import type { ApiModel } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./parts/icon.js";

/** A provider name and a model id. */
export interface Pair {
  provider: string;
  model: string;
}

interface ModelPickerProps {
  /** Undefined until the models are loaded. */
  models: readonly ApiModel[] | undefined;
  value: Pair | undefined;
  /** Whether the session is new, so that the server may choose the model. */
  isNew: boolean;
  disabled: boolean;
  onOpen: () => void;
  onChoose: (pair: Pair | undefined) => void;
}

/** Maximum number of shown options; the search finds the others. */
const MAX_SHOWN_OPTIONS = 200;

interface Option {
  pair: Pair | undefined;
  name: string;
  provider: string;
}

/** A list of models with a search field. */
export function ModelPicker({ models, value, isNew, disabled, onOpen, onChoose }: ModelPickerProps) {
  const isOpen = useSignal(false);
  const search = useSignal("");
  const at = useSignal(0);
  const button = useRef<HTMLButtonElement>(null);
  const popup = useRef<HTMLDivElement>(null);
  const current =
    value && models?.find((candidate) => candidate.provider === value.provider && candidate.model.id === value.model);
  const label = value ? current?.model.name || value.model : "Default model";
  const all = isOpen.value ? optionsOf(models ?? [], search.value, isNew) : [];
  const options = all.slice(0, MAX_SHOWN_OPTIONS);

  const open = () => {
    search.value = "";
    isOpen.value = true;
    const options = optionsOf(models ?? [], "", isNew);
    at.value = Math.max(
      0,
      options.findIndex(({ pair }) => isSame(pair, value)),
    );
    onOpen();
  };
  const close = () => {
    popup.current?.hidePopover();
    button.current?.focus();
  };
  const choose = (option: Option | undefined) => {
    if (!option) return;
    close();
    if (!isSame(option.pair, value)) onChoose(option.pair);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    const move = moves[event.key];
    if (move !== undefined) at.value = Math.min(Math.max(0, at.value + move), Math.max(0, options.length - 1));
    else if (event.key === "Enter") choose(options[at.value]);
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") {
      popup.current?.hidePopover();
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  useEffect(() => {
    popup.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [at.value, isOpen.value, search.value]);
  useEffect(() => {
    const [list, anchor] = [popup.current, button.current];
    if (!isOpen.value || !list || !anchor) return;
    // A popover, because the surrounding element scrolls and would clip it. The browser closes it on a click elsewhere.
    list.showPopover();
    place(list, anchor.getBoundingClientRect());
    list.querySelector("input")?.focus();
  }, [isOpen.value]);

  return (
    <div class="model-picker">
      <button
        ref={button}
        type="button"
        class="picker model-button"
        aria-haspopup="listbox"
        aria-expanded={isOpen.value}
        aria-label={`Model: ${label}`}
        title={value ? `${value.provider}/${value.model}` : "The server chooses"}
        disabled={disabled}
        onClick={() => (isOpen.value ? close() : open())}
      >
        <span class="model-name clipped">{label}</span>
        <Icon name="chevron-down" />
      </button>
      {isOpen.value && (
        <div
          ref={popup}
          class="model-popup"
          popover="auto"
          onToggle={({ newState }) => newState === "closed" && (isOpen.value = false)}
        >
          <input
            class="field"
            role="combobox"
            aria-label="Search models"
            aria-expanded="true"
            aria-controls="model-options"
            aria-autocomplete="list"
            aria-activedescendant={options.length > 0 ? `model-option-${at.value}` : undefined}
            placeholder="Search models…"
            autocomplete="off"
            value={search.value}
            onInput={(event) => {
              search.value = event.currentTarget.value;
              at.value = 0;
            }}
            onKeyDown={onKeyDown}
          />
          <ul id="model-options" class="model-options" role="listbox" aria-label="Models">
            {options.map((option, i) => (
              <li
                key={`${option.provider}/${option.pair?.model ?? ""}`}
                id={`model-option-${i}`}
                class={`model-option ${isSame(option.pair, value) ? "chosen" : ""}`}
                role="option"
                aria-selected={i === at.value}
                onPointerMove={() => (at.value = i)}
                onClick={() => choose(option)}
              >
                <span class="model-name clipped">{option.name}</span>
                <span class="model-provider clipped">{option.provider}</span>
              </li>
            ))}
          </ul>
          <p class="model-note" role="status">
            {models === undefined
              ? "Loading models…"
              : all.length === 0
                ? "No model matches."
                : all.length > MAX_SHOWN_OPTIONS
                  ? `${all.length - MAX_SHOWN_OPTIONS} more; search for them.`
                  : ""}
          </p>
        </div>
      )}
    </div>
  );
}

/** Places the list above or below the button, on the side with more room. */
function place(list: HTMLElement, { left, top, bottom }: DOMRect): void {
  const gap = 6;
  const room = document.documentElement.clientWidth - list.offsetWidth - gap;
  list.style.left = `${Math.max(gap, Math.min(left, room))}px`;
  const above = top > innerHeight - bottom;
  list.style.bottom = above ? `${innerHeight - top + gap}px` : "auto";
  list.style.top = above ? "auto" : `${bottom + gap}px`;
}

function optionsOf(models: readonly ApiModel[], search: string, isNew: boolean): Option[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const options: Option[] = models.map(({ provider, model }) => ({
    pair: { provider, model: model.id },
    name: model.name || model.id,
    provider,
  }));
  const matches = options.filter(({ pair, name, provider }) => {
    const text = `${provider}/${pair?.model ?? ""} ${name}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return isNew && words.length === 0
    ? [{ pair: undefined, name: "Default model", provider: "chosen by the server" }, ...matches]
    : matches;
}

function isSame(first: Pair | undefined, second: Pair | undefined): boolean {
  return first?.provider === second?.provider && first?.model === second?.model;
}
