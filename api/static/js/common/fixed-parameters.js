// Parameters with one value in a whole sweep.
import { formatName } from "./format.js";
import { formatCoordinates } from "./labels.js";

/** Format parameters in one line: k = 2, Δ = 0.001, erf, gaussian start, power schedule. */
export function formatFixed(fixed) {
  const {
    activation, teacher_activation: teacherActivation, "init.kind": start, "init.teacher": teacher,
    "second_layer.init": layer, "teacher.second_layer.init": teacherLayer,
    "schedule.kind": schedule, "schedule.steps": steps, ...numbers
  } = fixed ?? {};
  const hasOtherTeacher = teacherActivation && teacherActivation !== activation;
  return [
    formatCoordinates(numbers),
    activation,
    hasOtherTeacher && `${teacherActivation} teacher`,
    start && `${formatName(start)} start`,
    teacher && `${teacher} teacher`,
    layer && `second layer ${layer}`,
    teacherLayer && `second layer of the teacher ${teacherLayer}`,
    schedule && `schedule ${schedule}${steps ? ` ${steps}` : ""}`,
  ].filter(Boolean).join(", ");
}
