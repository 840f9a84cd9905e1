import { Icon, type IconName } from "./icon.js";

interface IconButtonProps {
  icon: IconName;
  /** Accessible name and tooltip. */
  label: string;
  onClick: (event: MouseEvent) => void;
  /** For a toggle button, whether it is on. */
  pressed?: boolean;
  disabled?: boolean;
  class?: string;
}

/** A button that shows only an icon. */
export function IconButton({ icon, label, onClick, pressed, disabled, class: className = "" }: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${className}`}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}
