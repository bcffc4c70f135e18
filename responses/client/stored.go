package client

import (
	"context"
	"net/http"

	"holon/responses"
)

// Cancel ends the turn that makes the response id and returns its final
// response. A response that is final already is returned as it is.
func (c *Client) Cancel(ctx context.Context, responseID string) (*responses.Response, error) {
	if err := responses.CheckID("response_id", responseID); err != nil {
		return nil, err
	}
	answer, err := c.json(ctx, http.MethodPost, "/responses/"+responseID+"/cancel", []byte{}, MaxResponse)
	if err != nil {
		return nil, err
	}
	resp, err := responses.DecodeResponse(answer)
	if err != nil {
		return nil, c.badAnswer("POST /responses/"+responseID+"/cancel", err)
	}
	return resp, nil
}
