package job

// ShapeID is the hash of a normalised Requirements tuple; it is a subject token ([a-z0-9-]).
type ShapeID string

// Shape is a Requirements tuple normalised (memory rounded up to a step, CPUs and host memory to powers of two) and
// named by its hash: what a machine must have free. Two jobs of one shape are interchangeable for placement until
// the exact numbers are looked at.
type Shape struct {
	ID           ShapeID      `json:"id"`
	Requirements Requirements `json:"requirements"` // normalised; Why, Method, Model, WorldSize empty
}

// Band is the priority band, a subject token. Lower numbers are served first.
type Band string

// The bands, best first: priorities 67-100, 34-66, 0-33.
const (
	BandHigh   Band = "0"
	BandNormal Band = "1"
	BandLow    Band = "2"
)

// Lane is one queue of interchangeable jobs: priority band x shape x project.
type Lane struct {
	Band    Band
	Shape   ShapeID
	Project string
}
