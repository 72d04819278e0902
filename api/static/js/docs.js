// The page of the REST interface, made by Swagger UI.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger", deepLinking: true });
