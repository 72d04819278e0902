// The points of a diagram, whatever its form: a grid, a list of points, or a triangle.
import { TRIANGLE_PARAMETERS } from "../common/contents.js";

/** Return the names of the parameters by which a diagram shows points. */
export function getPointNames(answer) {
  return answer.form === "triangle" ? TRIANGLE_PARAMETERS : [answer.x.name, answer.y.name];
}

/** Return the points that have a run, by the names of their parameters. */
export function listPoints(answer) {
  if (answer.form === "triangle") return answer.points;
  const { x, y } = answer;
  if (answer.form !== "grid") {
    return answer.points.map((point) => ({ ...point, [x.name]: point.x, [y.name]: point.y }));
  }
  const createPoint = (yValue, row) => (xValue, column) => (
    { [x.name]: xValue, [y.name]: yValue, value: answer.value.values[row][column] });
  return y.values.flatMap((yValue, row) => x.values.map(createPoint(yValue, row)))
    .filter(({ value }) => value !== null);
}

/** Return the named coordinates of a point. */
export function pick(point, names) {
  return Object.fromEntries(names.map((name) => [name, point[name]]));
}

/** Return the index, in the list of points, of what was clicked, or undefined for a label or a line. */
export function findClickedIndex(answer, { pointIndex, customdata }) {
  if (answer.form === "triangle") return customdata;
  if (answer.form !== "grid") return pointIndex;
  const [row, column] = pointIndex;
  const [x, y] = [answer.x.values[column], answer.y.values[row]];
  return listPoints(answer).findIndex((point) => point[answer.x.name] === x && point[answer.y.name] === y);
}
