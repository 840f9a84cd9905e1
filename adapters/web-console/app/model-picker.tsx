import { useSignal } from "@preact/signals";
import type { ApiModel } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./parts/icon.js";

/** A provider name and a model id. */
export interface ModelReference {
  provider: string;
  model: string;
}

interface ModelPickerProps {
  /** Undefined until the models are loaded. */
  models: readonly ApiModel[] | undefined;
  /** The chosen model. Undefined: the server chooses. */
  value: ModelReference | undefined;
  /** Whether the session is new, so that the server may choose the model. */
  isNew: boolean;
  disabled: boolean;
  onOpen: () => void;
  onChoose: (reference: ModelReference | undefined) => void;
}

/** Maximum number of shown options; the search finds the others. */
const MAX_SHOWN_OPTIONS = 200;
/** Number of options that PageUp and PageDown skip. */
const PAGE_OPTIONS = 8;
/** Distance of the popup from the button and from the edge of the page, in pixels. */
const POPUP_GAP_PIXELS = 6;

interface Option {
  /** Undefined for the default model. */
  reference: ModelReference | undefined;
  name: string;
  provider: string;
}

/** A list of models with a search field. */
export function ModelPicker({ models, value, isNew, disabled, onOpen, onChoose }: ModelPickerProps) {
  const isOpen = useSignal(false);
  const search = useSignal("");
  const activeIndex = useSignal(0);
  const button = useRef<HTMLButtonElement>(null);
  const popup = useRef<HTMLDivElement>(null);
  const currentModel =
    value && models?.find((candidate) => candidate.provider === value.provider && candidate.model.id === value.model);
  const label = value ? currentModel?.model.name || value.model : "Default model";
  const matches = isOpen.value ? findOptions(models ?? [], search.value, isNew) : [];
  const options = matches.slice(0, MAX_SHOWN_OPTIONS);

  const openPopup = () => {
    search.value = "";
    isOpen.value = true;
    const allOptions = findOptions(models ?? [], "", isNew);
    activeIndex.value = Math.max(
      0,
      allOptions.findIndex(({ reference }) => isSameModel(reference, value)),
    );
    onOpen();
  };
  const closePopup = () => {
    popup.current?.hidePopover();
    button.current?.focus();
  };
  const chooseOption = (option: Option | undefined) => {
    if (!option) return;
    closePopup();
    if (!isSameModel(option.reference, value)) onChoose(option.reference);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const moveByKey: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: PAGE_OPTIONS,
      PageUp: -PAGE_OPTIONS,
    };
    const move = moveByKey[event.key];
    if (move !== undefined)
      activeIndex.value = Math.min(Math.max(0, activeIndex.value + move), Math.max(0, options.length - 1));
    else if (event.key === "Enter") chooseOption(options[activeIndex.value]);
    else if (event.key === "Escape") closePopup();
    else if (event.key === "Tab") {
      popup.current?.hidePopover();
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  useEffect(() => {
    popup.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [activeIndex.value, isOpen.value, search.value]);
  useEffect(() => {
    const [popupElement, anchor] = [popup.current, button.current];
    if (!isOpen.value || !popupElement || !anchor) return;
    // A popover, because the surrounding element scrolls and would clip the list. The browser closes a popover on a
    // click
    // elsewhere.
    popupElement.showPopover();
    placePopup(popupElement, anchor.getBoundingClientRect());
    popupElement.querySelector("input")?.focus();
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
        onClick={() => (isOpen.value ? closePopup() : openPopup())}
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
            aria-activedescendant={options.length > 0 ? `model-option-${activeIndex.value}` : undefined}
            placeholder="Search models…"
            autocomplete="off"
            value={search.value}
            onInput={(event) => {
              search.value = event.currentTarget.value;
              activeIndex.value = 0;
            }}
            onKeyDown={onKeyDown}
          />
          <ul id="model-options" class="model-options" role="listbox" aria-label="Models">
            {options.map((option, index) => (
              <li
                key={`${option.provider}/${option.reference?.model ?? ""}`}
                id={`model-option-${index}`}
                class={`model-option ${isSameModel(option.reference, value) ? "chosen" : ""}`}
                role="option"
                aria-selected={index === activeIndex.value}
                onPointerMove={() => (activeIndex.value = index)}
                onClick={() => chooseOption(option)}
              >
                <span class="model-name clipped">{option.name}</span>
                <span class="model-provider clipped">{option.provider}</span>
              </li>
            ))}
          </ul>
          <p class="model-note" role="status">
            {models === undefined
              ? "Loading models…"
              : matches.length === 0
                ? "No matching model"
                : matches.length > MAX_SHOWN_OPTIONS
                  ? `${matches.length - MAX_SHOWN_OPTIONS} more: search to find them`
                  : ""}
          </p>
        </div>
      )}
    </div>
  );
}

/** Places the popup above or below the button, on the side with more space. */
function placePopup(popupElement: HTMLElement, { left, top, bottom }: DOMRect): void {
  const maxLeft = document.documentElement.clientWidth - popupElement.offsetWidth - POPUP_GAP_PIXELS;
  popupElement.style.left = `${Math.max(POPUP_GAP_PIXELS, Math.min(left, maxLeft))}px`;
  const isAbove = top > innerHeight - bottom;
  popupElement.style.bottom = isAbove ? `${innerHeight - top + POPUP_GAP_PIXELS}px` : "auto";
  popupElement.style.top = isAbove ? "auto" : `${bottom + POPUP_GAP_PIXELS}px`;
}

/** The models that contain all words of the search. Without a search, a new session also has the default model. */
function findOptions(models: readonly ApiModel[], search: string, isNew: boolean): Option[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const options: Option[] = models.map(({ provider, model }) => ({
    reference: { provider, model: model.id },
    name: model.name || model.id,
    provider,
  }));
  const matches = options.filter(({ reference, name, provider }) => {
    const text = `${provider}/${reference?.model ?? ""} ${name}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return isNew && words.length === 0
    ? [{ reference: undefined, name: "Default model", provider: "chosen by the server" }, ...matches]
    : matches;
}

function isSameModel(first: ModelReference | undefined, second: ModelReference | undefined): boolean {
  return first?.provider === second?.provider && first?.model === second?.model;
}
